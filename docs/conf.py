"""How the documentation is built: `make docs` runs Sphinx on this folder, without a network."""

import os
import re
import sys
import warnings
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "src"))
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # the examples are small, and two of them run at a time

from api_pages import write_pages  # noqa: E402

project = "tacit"
author = "the tacit developers"
copyright = author
version = release = installed_version("tacit")

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "**/README.md", "gallery/*.py", "gallery/*.ipynb"]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore = [("py:class", "collections.abc.Generator")]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = [
    "config.cache",  # the gallery's settings hold classes, which Sphinx cannot keep between builds
    "ref.citation",  # the papers that a module lists, which its functions name
]

# the API: every public name, one page each
write_pages(HERE / "api")
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc sections state the types in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
warnings.filterwarnings("ignore", message="Unknown section Privacy")  # moved below
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "parallel": 2,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 60,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
    "notebook_extensions": (),
    "plot_gallery": os.environ.get("TACIT_DOCS_GALLERY", "True"),  # "False": pages without running the examples
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "tacit"
html_static_path = ["_static"]
html_css_files = ["tacit.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "tacit"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "header_links_before_dropdown": 8,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}


def of_tacit(app, what, name, value, skip, options):
    """Leave out members that come from scikit-learn or Python: their own documentation describes them."""
    value = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", None) or value
    module = getattr(value, "__module__", None)
    return True if isinstance(module, str) and not module.startswith("tacit") else skip


def privacy_first(app, what, name, value, options, lines):
    """Move a section "Privacy", which numpydoc does not know, into a box before the parameters."""
    if name.startswith("tacit.privacy.published."):  # papers are listed at the module
        lines[:] = [re.sub(r"\[(\w+)\]_", r"[\1]", line) for line in lines]
    headers = [
        place for place in range(len(lines) - 1) if lines[place].strip() and set(lines[place + 1].strip()) == {"-"}
    ]
    for place in headers:
        if lines[place].strip() == "Privacy":
            end = min((other for other in headers if other > place), default=len(lines))
            box = [".. admonition:: Privacy", "", *("   " + line for line in lines[place + 2 : end]), ""]
            del lines[place:end]
            first = headers[0] if headers[0] < place else len(lines)
            lines[first:first] = box
            return


def present_globs(app, docname, source):
    """Drop patterns of a table of contents that match no page."""
    lines = source[0].splitlines()
    kept = [one for one in lines if not re.fullmatch(r"/\S*\*", one) or any(HERE.glob(f"{one[1:]}.md"))]
    if len(kept) < len(lines):
        source[0] = "\n".join(kept)


def setup(app):
    """Connect the choice of members, the place of the sections on privacy, and the pages that may be missing."""
    app.connect("source-read", present_globs)
    app.connect("autodoc-skip-member", of_tacit)
    app.connect("autodoc-process-docstring", privacy_first, priority=100)
