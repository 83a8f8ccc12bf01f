import sys
from pathlib import Path

import pytest

from forklift import plugins
from forklift.errors import SetupError


def install(at: Path, package: str, entry_points: str) -> None:
    """What a package installer leaves behind, as far as plugins are concerned."""
    information = at / f"{package}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize("group", plugins.GROUPS)
def test_every_adapter_that_is_registered_can_be_loaded(group: plugins.Group) -> None:
    assert plugins.names(group)
    for name in plugins.names(group):
        assert callable(plugins.load(group, name))


def test_a_third_partys_plugin_comes_in_through_the_same_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "forklift-sourcehut", "[forklift.forges]\nsourcehut = pathlib:PurePath\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    assert plugins.load("forklift.forges", "sourcehut").__name__ == "PurePath"
    assert "sourcehut" in plugins.names("forklift.forges")


def test_an_unknown_name_is_told_with_the_names_there_are() -> None:
    with pytest.raises(SetupError) as caught:
        plugins.load("forklift.forges", "gitae")
    assert "'gitae' is not among the forges: " in caught.value.message
    assert "github" in caught.value.message
    assert "did you mean 'gitea'?" in caught.value.message


def test_two_packages_that_claim_one_name_are_a_quarrel_for_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "impostor", "[forklift.forges]\ngithub = pathlib:PurePath\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    with pytest.raises(SetupError, match="two packages bring the plugin 'github'") as caught:
        plugins.load("forklift.forges", "github")
    assert "impostor" in caught.value.message


@pytest.mark.parametrize("value", ["no_such_module:Thing", "pathlib:NoSuchThing", "os:sep"])
def test_a_broken_plugin_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    install(tmp_path, "forklift-broken", f"[forklift.agents]\nbroken = {value}\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    with pytest.raises(SetupError, match=r"the plugin 'broken' \(forklift-broken") as caught:
        plugins.load("forklift.agents", "broken")
    assert len(caught.value.message.splitlines()) == 1


def test_an_installation_that_registers_nothing_is_told_to_reinstall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "forklift", "")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(SetupError, match=r"registers no forklift\.agents; reinstall it"):
        plugins.load("forklift.agents", "opencode")
