"""Without PyTorch the rest of tacit works, and the networks' error says what to install."""

import subprocess
import sys

import pytest

WITHOUT = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
"""


def python(code):
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)


def test_the_import_says_what_to_install():
    found = python("import tacit.neural")
    assert found.returncode == 1
    assert "pip install 'tacit[neural]'" in found.stderr
    assert "torch==2.13.0" in found.stderr


def test_it_is_an_import_error_and_an_error_of_tacit():
    code = """
import tacit
try:
    import tacit.neural
except ImportError as error:
    print(isinstance(error, tacit.TacitError), error.exit_code)
"""
    assert python(code).stdout.split() == ["True", "2"]


@pytest.mark.slow
def test_the_rest_works():
    code = "import sys, numpy, tacit; tacit.NMF(2).fit(numpy.ones((4, 3))); print('torch' in sys.modules)"
    assert python(code).stdout.strip() == "False"
