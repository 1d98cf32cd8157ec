"""What is installed: required packages with their versions, and optional libraries by extra."""

import platform

import pytest

from encoderlab.runs.records import installation
from encoderlab.runs.records.installation import DEVELOPERS, optional_libraries, versions


def test_every_package_that_results_depend_on_has_a_version():
    found = versions()
    assert found["python"] == platform.python_version()
    assert None not in found.values() and {"encoderlab", "torch", "numpy"} <= found.keys()


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        ('onnxruntime>=1.17; extra == "onnx"', {"onnx": {"onnxruntime": "1.2"}}),
        ("onnx[all]>=1 ; (python_version > '3') and extra == 'onnx'", {"onnx": {"onnx": "1.2"}}),
        ("torch>=2.6", {}),
        ('pytest; extra == "dev"', {}),
        ("tomli; python_version < '3.11'", {}),
    ],
)
def test_optional_libraries_are_read_from_the_requirements(monkeypatch, requirement, found):
    monkeypatch.setattr(installation, "requires", lambda name: [requirement])
    monkeypatch.setattr(installation, "installed_version", lambda name: "1.2")
    assert optional_libraries() == found


def test_the_extras_for_users_are_all_found():
    found = optional_libraries()
    assert {"serve", "onnx", "tensorboard"} <= found.keys() and not found.keys() & set(DEVELOPERS)
    assert "starlette" in found["serve"]
    assert all(
        installation.installed_version(name) == version
        for of_extra in found.values()
        for name, version in of_extra.items()
    )


def test_without_requirements_there_are_none(monkeypatch):
    monkeypatch.setattr(installation, "requires", lambda name: None)
    assert optional_libraries() == {}
