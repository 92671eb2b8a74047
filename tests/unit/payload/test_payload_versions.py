"""The cheap way to a version says what the thorough way says."""

from importlib.metadata import version

from grainlike.payload import _versions, serializer_versions


def test_versions_are_those_of_the_installed_distributions():
    assert serializer_versions() == {name: version(name) for name in ("cloudpickle", "dill")}


def test_without_a_metadata_folder_the_thorough_way_answers(monkeypatch):
    monkeypatch.setattr(_versions, "_beside", lambda name: None)
    assert _versions.serializer_versions.__wrapped__() == {name: version(name) for name in ("cloudpickle", "dill")}
