"""Formulas as MathML, which browsers draw by themselves: no script, and nothing from elsewhere."""

from html import escape

from docutils import nodes
from latex2mathml.converter import convert


def inline(writer, node):
    """Write a formula in a line of text."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(writer, node):
    """Write a formula on lines of its own."""
    identifiers = "".join(f' id="{escape(name)}"' for name in node["ids"][:1])
    writer.body.append(
        f'<div class="math notranslate nohighlight"{identifiers}>{convert(node.astext(), display="block")}</div>'
    )
    raise nodes.SkipNode


def setup(app):
    """Register the renderer; `html_math_renderer` chooses it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
