"""The version is that of the package beside this one, which states it once."""
import pathlib
import re

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
TEXT = (HERE.parent / "src/opensandbox/_version.py").read_text(encoding="utf-8")
VERSION = re.search(r'__version__ = "([^"]+)"', TEXT)[1]

setup(version=VERSION, install_requires=[f"opensandbox>={VERSION}"])
