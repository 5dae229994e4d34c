"""The console in two languages: nothing of a template is left out of the catalogue, no translation is missing, and each request
gets its language."""

from __future__ import annotations

import re
from collections.abc import Callable
from gettext import GNUTranslations
from io import BytesIO
from pathlib import Path

import allauth
import pytest
from babel.messages.catalog import Message
from babel.messages.mofile import write_mo
from django.conf import settings
from django.template import Context, Template
from django.test import Client
from django.utils import translation
from django.utils.formats import localize

from admin_ui.translation.languages import COOKIE
from docs.translations import LANGUAGES, TEMPLATES, found, read, templates, untranslatable
from docs.unmarked_texts import unmarked
from workers.translation.catalogs import SOURCES, compiled, read_po, to_mo

DOCUMENTS = ("admin_ui/docs_frame.html", "admin_ui/pages/docs")  # the documents are in English, and so is what stands around them
PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[sd%]|\{\w*\}")
CONSOLE = TEMPLATES.parent
SCRIPTS = CONSOLE / "static" / "admin_ui" / "js"
CATALOGS = [SOURCES / language / "LC_MESSAGES" / "django.po" for language in LANGUAGES]


@pytest.mark.parametrize("path", templates(), ids=lambda path: path.as_posix().partition("/templates/")[2])
def test_every_text_of_a_template_can_be_translated(path: Path) -> None:
    name = path.as_posix().partition("/templates/")[2]
    left = [f"line {line}: {text}" for line, text in untranslatable(path.read_text())]
    if name.startswith(DOCUMENTS):
        return
    assert left == [], "mark these texts with {% translate %} or {% blocktranslate %}, then run python -m docs.translations"


@pytest.mark.parametrize("path", CATALOGS, ids=LANGUAGES)
def test_no_translation_is_missing_or_has_other_placeholders(path: Path) -> None:
    catalog, wanted = read(path), found()
    texts = {(message.id, message.context) for message in wanted if message.id}
    assert {(message.id, message.context) for message in catalog if message.id} == texts, "run python -m docs.translations"
    for message in catalog:
        if message.id:
            check(message, catalog.num_plurals)


def check(message: Message, plurals: int) -> None:
    sources = (message.id,) if isinstance(message.id, str) else message.id
    written = (message.string,) if isinstance(message.string, str) else message.string or ()
    assert written and all(written) and not message.fuzzy, f"no translation: {message.id}"
    assert len(written) == (1 if len(sources) == 1 else plurals), message.id
    for text in written:
        assert sorted(PLACEHOLDER.findall(text)) == sorted(PLACEHOLDER.findall(sources[-1])), message.id
        assert re.findall(r"</?\w+", text) == re.findall(r"</?\w+", sources[-1]), message.id


def test_what_scripts_say_is_in_their_list_and_nothing_else_is() -> None:
    scripts = {path.name: path.read_text() for path in SCRIPTS.glob("*.js")}
    listed = dict(re.findall(r'^  "((?:[^"])+)": "((?:[^"])+)",$', scripts.pop("words.js"), re.MULTILINE))
    said = {text for script in scripts.values() for text in re.findall(r'\bsay\("([^"]+)"', script)}
    assert {*listed} - {"as the system", "light", "dark"} == said
    for text, german in listed.items():
        assert sorted(PLACEHOLDER.findall(german)) == sorted(PLACEHOLDER.findall(text)), text


LITERAL = re.compile(r'(say\(\s*)?("(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`(?:[^`\\]|\\.)*`)')
# Several words, or one that begins like a sentence; names of keys, headers and classes, selectors and addresses are none.
SAID = re.compile(r"[A-Za-z]{2,}[ ,][A-Za-z]{2,}(?![\w-]*[=:\]])|^[A-Z][a-z]+[ .:,]")
NO_TEXT = re.compile(
    r"[.#\[(]|.*\[|(?:input|main|summary|script|template|table|button|details|a|dialog)\b"
    r"|badge |load delay:?|application/|M\$|.* \.|time_zone=|as the system$"
)


@pytest.mark.parametrize("name", sorted(path.name for path in SCRIPTS.glob("*.js") if path.name != "words.js"))
def test_every_text_of_a_script_can_be_translated(name: str) -> None:
    assert left_in_script((SCRIPTS / name).read_text()) == [], "put these texts into say(...), and into words.js"


def left_in_script(source: str) -> list[str]:
    code = re.sub(r"(?m)(?:^|\s)//.*$|/\*(?:.|\n)*?\*/", "", source)
    texts = [literal[1:-1] for said, literal in LITERAL.findall(code) if not said]
    return [text for text in texts if SAID.search(re.sub(r"\$\{[^}]*\}", "", text)) and not NO_TEXT.match(text)]


def test_texts_of_scripts_that_are_not_said_are_found() -> None:
    assert left_in_script('a = say("Two words"); // two words\nclosest("dialog[open]"); on("keydown"); key === "Enter"') == []
    for hidden in ('a = "Two words";', "a = `the ${b} of all topics`;", "a = ok ? 'no more rows' : '';"):
        assert len(left_in_script(hidden)) == 1, hidden


def test_texts_that_no_translator_sees_are_found() -> None:
    seen = '{{ it|default:_("no word") }}'
    seen += '<p>{% translate "a word" %}</p>{% comment %}not shown{% endcomment %}<code>name</code>{# no #} {{ value }} <b>g k</b>'
    assert list(untranslatable(seen)) == []
    for hidden in (
        "<p>a word</p>",
        "a {{ value }}\nword",
        '{{ it|default:"a word" }}',
        '<a title="a word">x</a>',
        '{% include "x.html" with title="a word" %}',
    ):
        assert len(list(untranslatable(f"{seen}\n{hidden}"))) == 1, hidden


def test_catalogues_are_compiled_as_gettext_reads_them(tmp_path: Path) -> None:
    for path in CATALOGS:
        ours = GNUTranslations(BytesIO(to_mo(read_po(path.read_text()))))
        theirs = BytesIO()
        write_mo(theirs, read(path))
        expected = GNUTranslations(BytesIO(theirs.getvalue()))
        for message in read(path):
            if not message.id:
                assert ours.info()["plural-forms"] == expected.info()["plural-forms"]
            elif isinstance(message.id, str):
                assert ours.gettext(message.id) == expected.gettext(message.id)
            else:
                one, many = message.id
                for number in (0, 1, 2, 5):
                    assert ours.ngettext(one, many, number) == expected.ngettext(one, many, number)
    folder = compiled(tmp_path)
    made = folder / "de" / "LC_MESSAGES" / "django.mo"
    first = made.stat().st_mtime_ns
    assert compiled(tmp_path) == folder and made.stat().st_mtime_ns == first
    (tmp_path / "file").touch()
    assert not compiled(tmp_path / "file").exists()  # nothing can be written there: English


def test_a_catalogue_is_read_with_contexts_plurals_and_several_lines() -> None:
    text = (
        '# said\nmsgctxt "a"\nmsgid "one"\nmsgstr "eins"\n\n#, fuzzy\nmsgid "two"\nmsgstr "zwei"\n\nmsgid ""\n"three \\"x\\"\\n"\n'
        'msgstr "drei"\n\nmsgid "none"\nmsgstr ""\n\nmsgid "dog"\nmsgid_plural "dogs"\nmsgstr[0] "Hund"\nmsgstr[1] "Hunde"\n'
    )
    assert read_po(text) == {"a\x04one": "eins", 'three "x"\n': "drei", "dog\x00dogs": "Hund\x00Hunde"}
    with pytest.raises(ValueError, match="line 2 of a catalogue"):
        read_po('msgid "a"\nmsgstr b\n')


def test_nobody_is_spoken_to_as_a_friend() -> None:
    """The sign-in library does, in its own German; what it says to people of ours is in `OF_SIGN_IN`."""
    friendly = re.compile(r"\b(?:du|dich|dir|dein\w*|gib|habe|versuche|wähle)\b", re.IGNORECASE)
    assert [
        text for text in map(str, (message.string for message in read(CATALOGS[0]))) if re.search(r"\b[Dd](?:u|ich|ein\w*)\b", text)
    ] == []
    library = read(Path(allauth.__file__).parent / "locale" / "de" / "LC_MESSAGES" / "django.po")
    shown = [
        message
        for message in library
        if any(
            re.match(r"(?:account|socialaccount|mfa)/\w+\.py|templates/account/messages/", place) for place, _ in message.locations
        )
    ]
    assert len(shown) > 20
    with translation.override("de"):
        assert [
            message.id for message in shown if isinstance(message.id, str) and friendly.search(translation.gettext(message.id))
        ] == []


@pytest.mark.django_db
def test_a_browser_gets_the_language_that_it_asks_for_and_keeps_the_one_that_is_chosen(client: Client) -> None:
    def language(accept: str) -> str:
        page = client.get("/sign-in", headers={"accept-language": accept}).content.decode()
        assert ("Passwort vergessen?" in page) == ('<html lang="de"' in page) != ("Forgot your password?" in page)
        return "de" if '<html lang="de"' in page else "en"

    assert [language(accept) for accept in ("", "de", "de-AT,de;q=0.9", "fr,de;q=0.5,en;q=0.4", "fr", "en,de", "x" * 5000)] == [
        "en", "de", "de", "de", "en", "en", "en",
    ]  # fmt: skip
    answer = client.post("/language", {"language": "de", "next": "/sign-in?next=/now"})
    assert answer.status_code == 302 and answer["Location"] == "/sign-in?next=/now"
    assert answer.cookies[COOKIE]["samesite"] == "Lax" and answer.cookies[COOKIE]["httponly"]
    assert language("en") == "de"
    client.post("/language", {"language": "en"})
    assert language("de") == "en"


@pytest.mark.django_db
def test_a_choice_that_there_is_not_changes_nothing_and_leads_nowhere_else(client: Client) -> None:
    assert COOKIE not in client.post("/language", {"language": "xx"}).cookies
    for elsewhere in ("https://evil.example/", "//evil.example", "javascript:alert(1)"):
        assert client.post("/language", {"language": "de", "next": elsewhere})["Location"] == "/"
    client.cookies[COOKIE] = "../../etc"
    assert b'<html lang="en"' in client.get("/sign-in").content


@pytest.mark.django_db
def test_programs_are_answered_in_english(client: Client) -> None:
    client.cookies[COOKIE] = "de"
    for path in ("/api/v1/tenants", "/admin/v2/tenants", "/docs"):
        spoken = client.get(path, headers={"accept-language": "de"}).content.decode()
        assert "Mandant" not in spoken and 'lang="de"' not in spoken


def test_who_is_signed_in_is_told_of_a_language_that_there_is_not(browse: Callable[[str], Client]) -> None:
    answer = browse("owner").post("/language", {"language": "<xx>", "next": "/tenants"}, follow=True)
    assert "There is no language &#x27;&lt;xx&gt;&#x27;" in answer.content.decode()


def test_pages_in_german_show_no_english_of_theirs(browse: Callable[[str], Client]) -> None:
    client = browse("owner")
    client.cookies[COOKIE] = "de"
    page = client.get("/tenants/acme").content.decode()
    for word in ("Mandant", "Schlüssel", "Mitglieder", "Letzte Änderungen"):
        assert word in page
    for word in (">Overview<", ">Members<", ">Recent changes<", ">Sign out<"):
        assert word not in page


def test_figures_have_the_separators_of_the_language_and_data_has_not() -> None:
    page = Template("{% load console %}{{ many|exact }} {{ bytes|size }} {{ x }} {{ many }} <time>{{ none|count }}</time>")
    context = Context({"many": 1234567, "bytes": 1536, "x": 0.5, "none": None})
    assert page.render(context) == "1,234,567 1.50 KiB 0.5 1234567 <time>–</time>"
    with translation.override("de"):
        assert page.render(context) == "1.234.567 1,50 KiB 0.5 1234567 <time>–</time>"
        assert localize(0.5) == "0.5"


def test_the_console_offers_what_there_are_catalogues_for() -> None:
    assert {code for code, _ in settings.LANGUAGES} == {"en", *LANGUAGES}


# Sources that say nothing to people in pages: programs, addresses and tables; answers of APIs and of the documents, in English.
NOTHING_SAID = (
    "api_calls.py", "apps.py", "consumers.py", "docs_site/", "live/", "sign_in/factors.py", "sign_in/openid/", "sign_in/rest/",
    "translation/",
)  # fmt: skip
# What is said only to whoever wrote a page or a program, and what is searched for in both languages.
NOT_SAID = re.compile(
    r"the page \{\} has no row|lacks \{\} on a tenant|import |from messaging|pip install|Hello\.java|One a line, like "
)
SOUGHT = re.compile(r"[a-z]+(?: [a-z]+)*")


@pytest.mark.parametrize(
    "path", sorted((TEMPLATES.parent).rglob("*.py")), ids=lambda path: path.relative_to(TEMPLATES.parent).as_posix()
)
def test_every_text_of_a_source_can_be_translated(path: Path) -> None:
    name = path.relative_to(TEMPLATES.parent).as_posix()
    if name.startswith(NOTHING_SAID):
        return
    left = [f"line {line}: {text}" for line, text in unmarked((CONSOLE / name).read_text()) if not NOT_SAID.match(text)]
    if name == "jump/places.py":
        left = [text for text in left if not SOUGHT.fullmatch(text.partition(": ")[2])]
    assert left == [], "put these texts into gettext(...), as a constant gettext_lazy(...), then run python -m docs.translations"


def test_texts_of_sources_that_no_translator_sees_are_found() -> None:
    said = (
        'gettext("Topic {name} was deleted.").format(name="orders")\nCharField(label="Name of it", help_text="One, two or three")\n'
    )
    assert (
        list(unmarked(f'"""What it does."""\n{said}log.warning("it went very wrong")\nraise TypeError("no such thing here")\n'))
        == []
    )
    for hidden in (
        'show("Topic was deleted.")',
        'show(f"{name} was deleted by {who} again")',
        'LABELS = {"a": "Deleted"}',
        'x = "Save"',
    ):
        assert len(list(unmarked(said + hidden))) == 1, hidden
