"""Which library a client says that it is, and what is known of that version."""

from __future__ import annotations

import pytest

from admin_ui.clients.libraries import PROBLEMS, library_of


@pytest.mark.parametrize(
    ("client", "name", "version", "problems"),
    [
        ("Pulsar-Java-v4.0.8", "Pulsar-Java", (4, 0, 8), []),
        ("Pulsar-Java-v2.10.0", "Pulsar-Java", (2, 10, 0), ["CVE-2022-33681"]),
        ("Pulsar-Java-v2.10.1", "Pulsar-Java", (2, 10, 1), []),
        ("Pulsar-Java-v2.9.2", "Pulsar-Java", (2, 9, 2), ["CVE-2022-33681"]),
        ("Pulsar-Java-v2.9.3", "Pulsar-Java", (2, 9, 3), []),
        ("Pulsar-CPP-v2.10.1", "Pulsar-CPP", (2, 10, 1), ["CVE-2022-33684"]),
        ("Pulsar-CPP-v2.6.4", "Pulsar-CPP", (2, 6, 4), ["CVE-2022-33684"]),
        ("Pulsar-CPP-v3.7.2", "Pulsar-CPP", (3, 7, 2), []),
        ("Pulsar Go 0.13.1", "Pulsar Go", (0, 13, 1), []),
        ("Rust client_v1.2", "Rust client", (1, 2, 0), []),
        ("v1.2.3 (linux)", "v", (1, 2, 3), []),
        ("java8-client 1.2.3", "java8-client 1.2.3", None, []),
        ("somebody's own", "somebody's own", None, []),
        ("", "", None, []),
        ("<script>", "<script>", None, []),
    ],
)
def test_a_client_says_its_library_and_version(
    client: str, name: str, version: tuple[int, int, int] | None, problems: list[str]
) -> None:
    found = library_of(client)
    assert (found.name, found.version, [problem.name for problem in found.problems]) == (name, version, problems)


def test_every_problem_has_a_source_and_versions_in_order() -> None:
    for problem in PROBLEMS:
        assert problem.source.startswith("https://") and problem.fixed
        assert all(first <= last for first, last in problem.ranges)


@pytest.mark.parametrize("text", ["a-" * 100_000, "a" + "-" * 100_000, "a " * 50_000 + "v", "a" + "-_ v" * 50_000, "1." * 100_000])
def test_a_long_text_costs_no_more_than_it_is_long(text: str) -> None:
    """Signs between library and version were looked at once for each of them: as many seconds as there were thousands of them."""
    assert library_of(text).version is None
