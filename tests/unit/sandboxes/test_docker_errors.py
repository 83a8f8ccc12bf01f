"""What Docker says becomes one line with a next step."""

import pytest

from forklift.sandboxes.docker_errors import missing_image, missing_program, no_answer, refused


@pytest.mark.parametrize(
    ("said", "next_step"),
    [
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///x",
            "usermod -aG docker",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
            "start",
        ),
        ("failed to connect to the docker API at unix:///x", "systemctl start docker"),
        ("error during connect: Get http://x: dial tcp: lookup x: no such host", "start docker"),
        ('Conflict. The container name "/a" is already in use by container "b".', "already"),
        ("docker: Error response from daemon: No such image: sha256:0.", "forklift image build"),
        ("write /var/lib/docker/x: no space left on device", "docker system prune"),
        ("invalid mount config: bind source path does not exist: /x", "docker context"),
        (
            'runc create failed: exec: "/opt/run.sh": stat /opt/run.sh: no such file or directory',
            "harness",
        ),
    ],
)
def test_a_known_trouble_ends_with_what_to_do(said: str, next_step: str) -> None:
    error = refused("docker", "run", said)
    assert next_step in error.message
    assert "\n" not in error.message
    assert error.detail == said


def test_an_unknown_trouble_is_told_on_one_harmless_line() -> None:
    error = refused("docker", "run", "strange\n\x1b[31mthing\n" + "x" * 5000)
    assert error.message.startswith("docker run failed: strange \\x1b[31mthing")
    assert len(error.message) < 300


def test_silence_is_told_too() -> None:
    assert "did not say why" in refused("docker", "run", "").message


def test_a_missing_program_image_or_answer_says_how_to_get_it() -> None:
    assert "apt-get install docker.io" in missing_program("docker").message
    assert "forklift image build" in missing_image("ours", "ours").message
    assert "docker pull theirs" in missing_image("theirs", "ours").message
    assert "20 s" in no_answer("docker", "version", 20).message
