"""Which tag is the latest release."""

import pytest

from forklift.core.releases import latest_release


@pytest.mark.parametrize(
    ("tags", "latest"),
    [
        (("v1.9.0", "v1.10.0", "v1.2.0"), "v1.10.0"),
        (("v2.0.0-rc1", "v1.0.0", "v2.0.0b2"), "v1.0.0"),
        (("release-3.1", "release-3.0.9"), "release-3.1"),
        (("pkg/v0.2.0", "nightly"), "pkg/v0.2.0"),
    ],
)
def test_the_highest_version_that_is_no_prerelease_is_chosen(
    tags: tuple[str, ...], latest: str
) -> None:
    assert latest_release(dict.fromkeys(tags, "oid")) == (latest, "oid")


def test_tags_that_are_no_versions_are_no_releases() -> None:
    assert latest_release({"nightly": "oid", "stable": "oid"}) is None
