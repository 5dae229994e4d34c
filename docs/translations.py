"""What the console says, for translators: ``python -m docs.translations`` brings `admin_ui/locale/*/LC_MESSAGES/django.po` up to
date with templates and sources. New texts come in without a translation, those that are gone go. Tests find what is missing.
"""

from __future__ import annotations

import ast
import io
import re
import sys
from calendar import month_name
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract
from babel.messages.pofile import read_po, write_po
from django.template.base import DebugLexer, Token, TokenType
from django.utils.translation.template import templatize

from messaging import errors
from messaging.broker.core.control import policy_effects
from messaging.permissions.roles import BUILT_IN
from messaging.policies import texts
from messaging.policies.groups import GROUPS
from messaging.policies.model import Level
from messaging.policies.registry import ENFORCED
from messaging.problems import steps
from messaging.problems.kinds import MARKS
from workers.alerts.sentences import CHANNELS
from workers.rating.units import METERS, UNITS
from workers.schedule import TASKS
from workers.translation.said import CONTEXT

ROOT = Path(__file__).resolve().parents[1]
LOCALE = ROOT / "admin_ui" / "locale"
TEMPLATES = ROOT / "admin_ui" / "templates"
OF_DOCUMENTS = ROOT / "workers" / "templates"  # invoices and reports
SOURCES = ("admin_ui", "workers")
LANGUAGES = ("de",)  # beside English; `controlplane.settings.LANGUAGES` offers them
KEYWORDS = {**DEFAULT_KEYWORDS, "gettext_lazy": None, "gettext_noop": None, "ngettext_noop": (1, 2), "pgettext_lazy": ((1, "c"), 2)}
ATTRIBUTES = {"alt", "title", "placeholder", "aria-label", "data-label", "data-before", "label"}
_OPENS, _CLOSES = ("blocktranslate", "comment"), ("endblocktranslate", "endcomment")
# Names, units and examples: the same in every language.
SAME = re.compile(
    r"Magnetar|Ctrl K|[a-zA-Z]|g [a-z]|Enter|Ctrl|Esc|UTC|JSON|CSV|PDF|HTML|Parquet|Avro|Python|Java|Go|curl|REST|CLI|SDK"
    r"|https|TLS|WebSocket|ms|min|MiB|GiB|KiB"
)
# Lines of the header that say nothing, or change with every run.
_HEADER = re.compile(rb'"(POT-Creation|PO-Revision|Generated|Report-Msgid|Last-Translator|Language-Team)')
# Parts below the console whose errors and reasons its pages show: of their sources what is raised, or named as a reason.
_RAISING = (
    "tenants/actions/**/*.py",
    "tenants/*.py",
    "tenants/browsing/*.py",
    "workers/redrive/*.py",
    "workers/spend_caps/*.py",
    "workers/alerts/*.py",
    "workers/billing/*.py",
    "workers/rating/[!v]*.py",  # all but what a program verifies
    "workers/mail.py",
    "workers/queue.py",
    "messaging/adminrpc/*.py",
    "messaging/broker/core/dead_letters/redrive.py",
    "messaging/broker/core/schemas/registry.py",
    "messaging/broker/runtime/admin/**/*.py",
    "messaging/broker/runtime/ownership/bundle_moves.py",
    "messaging/broker/runtime/topic_schemas.py",
    "messaging/broker/runtime/topics/limits/*.py",
    "messaging/policies/*.py",
    "messaging/protocol/names.py",
)
# Of these only APIs and programs are answered; what the API of redrives refuses, the page of dead letters shows.
_OF_PROGRAMS = re.compile(
    r".*/(?:\w*rest|(?<!redrive/)\w*shapes|internal|idempotency|pulsar\w*|backup|billing/files|gone_brokers|moves|dynamic|callers)\.py"
)
SAYING = sorted(
    {path for pattern in _RAISING for path in ROOT.glob(pattern) if not _OF_PROGRAMS.fullmatch(path.relative_to(ROOT).as_posix())}
)
# All of whose texts are sentences, or parts of some.
SENTENCES = [
    ROOT / name
    for name in (
        "messaging/broker/core/control/policy_effects.py",
        "messaging/broker/core/diagnosis/explain.py",
        "messaging/broker/core/diagnosis/problems.py",
        "messaging/broker/core/diagnosis/trace.py",
        "messaging/broker/runtime/admin/diagnosis.py",
        "messaging/broker/runtime/admin/fewer_copies.py",
        "messaging/broker/runtime/problems/broker_problems.py",
        "messaging/broker/runtime/problems/refusals.py",
        "messaging/broker/runtime/problems/topic_look.py",
        "messaging/broker/runtime/problems/topic_signs.py",
        "messaging/broker/runtime/topics/backlog/quota.py",
        "messaging/broker/runtime/topics/limits/admission.py",
        "messaging/broker/runtime/topics/limits/shared_limits.py",
        "messaging/broker/runtime/topics/limits/stored_bytes.py",
        "messaging/broker/runtime/topics/limits/tenant_ceilings.py",
        "messaging/client/tuning.py",
        "messaging/client/tuning_report.py",
        "messaging/permissions/decision.py",
        "messaging/policies/isolation.py",
        "tenants/http/refusals.py",
        "workers/alerts/sentences.py",
        "workers/mail.py",
    )
]
_ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.MagnetarError)}
_ERRORS |= {"RatingError"}  # of amounts and price plans, which forms show
_REASONS = {"MIXED_BATCH", "TOO_OFTEN", "A_CHUNK", "NO_DRAFT", "NO_PLAN"}
_NO_VALUES = {"len", "str", "sorted", "join", "name", "text", "max", "min", "repr", "exact", "self", "isoformat", "strip"}
_CHOICES = ("workers/models.py", "workers/billing/models.py", "workers/billing/budget_models.py")
_TWO_WORDS = re.compile(r"[A-Za-z]{2,}[,:]? [A-Za-z]{2,}|\{\w+\} [a-z]{2,}")
_FOR_PROGRAMS = {"spawn", "debug", "exception", "info", "warning", "error"}
# Sentences of notices whose words are too few to be told from other texts.
_SHORT = (
    "answered {status}",
    "{title}: {percent} % used",
    "Budget {name}: {threshold} % likely",
    "partition {index}: {count}",
)
# What the sign-in library says to people of ours in its own German, as to a friend: ours says it otherwise.
OF_SIGN_IN = (
    "You cannot remove your primary email address.",
    "You cannot remove your primary email address (%(email)s).",
    "Please type your current password.",
    "You cannot add more than %d email addresses.",
    "Too many failed login attempts. Try again later.",
    "Your primary email address must be verified.",
    "Username can not be used. Please use other username.",
    "Please select only one.",
    "Be patient, you are sending too many requests.",
    "You must type the same password each time.",
    "You must type the same email each time.",
    "An account already exists with this email address. Please sign in to that account first, then connect your %s account.",
    "Your account has no password set up.",
    "Your account has no verified email address.",
    "You have confirmed %(email)s.",
    "You have signed out.",
)
_DEFAULT = re.compile(r'default(?:_if_none)?:"([^"]+)"')  # shown where there is no value
_GAP = "\ue000"  # where a tag of the template was


def templates() -> list[Path]:
    return sorted(path for folder in (TEMPLATES, OF_DOCUMENTS) for path in folder.rglob("*") if path.suffix in (".html", ".txt"))


def found() -> Catalog:
    """Every text that is marked, with the files where it is."""
    catalog = Catalog(fuzzy=False)
    for path in templates():
        # In parentheses and one line, because what Django makes of a template has no indentation that Python would accept.
        _add(catalog, path, f"({' '.join(templatize(path.read_text(encoding='utf-8')).splitlines())})")
    for package in SOURCES:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            _add(catalog, path, source)
            for text in _of_fields(source):
                catalog.add(text, None, [(path.relative_to(ROOT).as_posix(), 0)])
    for text in steps.TEXTS.values():
        catalog.add(text, None, [("messaging/problems/steps.py", 0)])
    for paths, texts_of in ((SAYING, raised), (SENTENCES, sentences)):
        for path in paths:
            for text in texts_of(path.read_text(encoding="utf-8")):
                catalog.add(text, None, [(path.relative_to(ROOT).as_posix(), 0)], context=CONTEXT)
    for place, texts_there in (
        ("messaging/policies/registry.py", of_policies()),
        ("messaging/problems/kinds.py", (text for mark in MARKS.values() for text in (mark.text, mark.meaning))),
        ("messaging/policies/model.py", Level),
        (
            "messaging/permissions/model.py",
            (
                "the whole tenant",
                "namespace {namespace}",
                "topics {topics} of the whole tenant",
                "topics {topics} of namespace {namespace}",
            ),
        ),
        ("messaging/permissions/roles.py", (role.description for role in BUILT_IN.values())),
        *((name, _of_choices((ROOT / name).read_text(encoding="utf-8"))) for name in _CHOICES),
        ("messaging/broker/core/control/policy_effects.py", _of_effects()),
        ("workers/alerts/sentences.py", (*(f"{month} {{year}}" for month in month_name[1:]), *CHANNELS, *_SHORT)),
        ("workers/schedule.py", (task.title for task in TASKS)),
        ("tenants/actions/clients.py", ("client", "consumer", "producer")),
        (
            "workers/billing/costs.py",
            (
                "fees and other",
                "no label",
                "nobody in particular",
                "everything else",
                "Base fee",
                "Up to the minimum",
                "Corrections",
            ),
        ),
        ("workers/rating/money.py", ("amount", "base_fee", "minimum", "tax_rate")),
        ("workers/rating/rate.py", ("Base fee, {title}", "{title}, correction of invoice {number}", "Up to the agreed minimum")),
        ("workers/rating/units.py", (*(meter.title for meter in METERS.values()), *UNITS)),
    ):
        for text in texts_there:
            catalog.add(text, None, [(place, 0)], context=CONTEXT)
    for text in OF_SIGN_IN:
        catalog.add(text, None, [("allauth", 0)])
    for group in GROUPS:
        catalog.add(group.title, None, [("messaging/policies/groups.py", 0)])
    return catalog


def of_policies() -> Iterator[str]:
    """Titles, meanings and values of policies."""
    yield from ("yes", "no", "none", "1 entry", "{value} entries")  # `messaging.policies.texts.said`
    for group in GROUPS:
        yield from (subject.title for subject in group.subjects)
    for policy in ENFORCED.values():
        yield from (policy.title, policy.meaning, *policy.words.values())
        if policy.phrase != "{}":
            yield policy.phrase.replace("{}", "{value}")
        if policy.unit and not texts.is_duration(policy) and not texts.is_size(policy):
            yield from (f"{{value}} {policy.unit}", f"1 {texts.singular(policy.unit)}")
        if texts.is_duration(policy) or texts.is_size(policy):
            yield f"0 {policy.unit}"  # as `Ceiling` says what is used
        if policy.unit.isalpha():
            yield policy.unit


def _of_choices(source: str) -> Iterator[str]:
    """Labels of choices that rows have, as Django makes them of their names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and "TextChoices" in map(_base_name, node.bases):
            for each in node.body:
                if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                    given = getattr(each.value, "elts", ())
                    yield str(given[1].value) if len(given) > 1 else each.targets[0].id.replace("_", " ").title()


def _base_name(base: ast.expr) -> str:
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def _of_effects() -> Iterator[str]:
    """Things that a change of policies concerns, as it counts them."""
    for noun in texts.NOUNS:
        yield from (f"1 {noun}", f"{{count}} {texts.plural(noun)}")
    for kind in ("Exclusive", "Failover", "Shared", "Key_Shared"):
        yield from (f"1 {kind} consumer", f"{{count}} {kind} consumers")
    yield from (things.replace("_", " ") for things in policy_effects.OF_TENANTS)


def raised(source: str) -> Iterator[str]:
    """What errors of a source say, and its constants named after why something is not done: with the names of values in braces."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ERRORS and node.args:
            yield from _sayings(node.args[0])
        elif isinstance(node, ast.keyword) and node.arg in ("why", "error", "refused"):
            yield from _sayings(node.value)
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if _REASONS.intersection(names):
                yield from _sayings(node.value)


def sentences(source: str) -> Iterator[str]:
    """Every text of several words of a source that speaks, without its docstrings."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FOR_PROGRAMS:
            continue
        if isinstance(node, ast.Constant | ast.JoinedStr):
            yield from (text for text in _sayings(node) if _TWO_WORDS.search(text))
        waiting += (
            ast.iter_child_nodes(node)
            if not isinstance(node, ast.JoinedStr)
            else [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        )


def _sayings(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from (*_sayings(node.body), *_sayings(node.orelse))
    elif isinstance(node, ast.Subscript):
        yield from _sayings(node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _says_something(node.value):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        text, names = "", list[str]()
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                text += f"{{{_name_of(part.value, names)}}}"
        if _says_something(re.sub(r"\{\w+\}", "", text)):
            yield text


def _name_of(value: ast.expr, names: list[str]) -> str:
    """What a translator sees of a value: its last name, and a number where two have the same."""
    words = [
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute | ast.Name)
    ]
    word = next((word for word in words if word not in _NO_VALUES), "value").strip("_").lower()
    names.append(word)
    return word if names.count(word) == 1 else f"{word}_{names.count(word)}"


def _of_fields(source: str) -> Iterator[str]:
    """Labels and help texts of forms: templates translate what a field has."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg in ("label", "help_text"):
            text = getattr(node.value, "value", None)
            if isinstance(text, str) and _says_something(text):
                yield text


def _add(catalog: Catalog, path: Path, source: str) -> None:
    name = path.relative_to(ROOT).as_posix()
    for _, text, comments, context in extract("python", io.BytesIO(source.encode()), KEYWORDS, ["Translators:"]):
        catalog.add(text, None, [(name, 0)], auto_comments=comments, context=context)


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file)


def update(path: Path) -> bool:
    """Whether the file was changed."""
    before = path.read_bytes() if path.exists() else b""
    language = path.parents[1].name
    known = read(path) if before else Catalog(locale=language)
    fresh = Catalog(locale=language, fuzzy=False, project="Magnetar", version="1", copyright_holder="", header_comment="# Magnetar")
    for message in found():
        if message.id:
            old = known.get(message.id, message.context)
            text = old.string if isinstance(old, Message) else None
            places = sorted({place for place, _ in message.locations})
            fresh.add(
                message.id, text, [(place, 0) for place in places], auto_comments=message.auto_comments, context=message.context
            )
    written = io.BytesIO()
    write_po(written, fresh, width=120, omit_header=False, sort_output=False, include_lineno=False)
    lines = [line for line in written.getvalue().splitlines(keepends=True) if not _HEADER.match(line)]
    after = b"".join(lines)
    if after != before:
        path.write_bytes(after)
    return after != before


def untranslatable(template: str) -> Iterator[tuple[int, str]]:
    """(line, text) of what a reader of the page sees and no translator does."""
    reader = _Seen()
    translated = 0
    for token in DebugLexer(template).tokenize():
        line = token.lineno
        word = token.contents.split(None, 1)[0] if token.contents.strip() else ""
        if token.token_type is TokenType.BLOCK:
            translated += (word in _OPENS) - (word in _CLOSES)
            yield from ((line, text) for text in _words_of_tag(token))
        elif token.token_type is TokenType.VAR:
            yield from ((line, text) for text in _DEFAULT.findall(token.contents) if _says_something(text))
        reader.line = line
        reader.feed(token.contents if token.token_type is TokenType.TEXT and not translated else _GAP)
    reader.close()
    yield from reader.texts


def _words_of_tag(token: Token) -> Iterator[str]:
    """Texts that are given to a part: {% include "..." with title="No tenants yet" %}."""
    if token.contents.startswith("include "):
        for text in re.findall(r'\b(?:title|text|action|label|empty|note)="([^"]+)"', token.contents):
            if _says_something(text):
                yield text


def _says_something(text: str) -> bool:
    bare = re.sub(r"&\w+;|&#\d+;", " ", text.replace(_GAP, " / "))
    return any(not SAME.fullmatch(word) for word in re.findall(r"[A-Za-z]+(?: [A-Za-z]+)*", bare.strip()))


class _Seen(HTMLParser):
    """Texts and attributes that people read."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.line = 1
        self.texts: list[tuple[int, str]] = []
        self._text = ""
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._flush()
        self._code += tag in ("code", "pre", "script", "style", "kbd", "svg")
        for name, value in attrs:
            if name in ATTRIBUTES and value and _says_something(value):
                self.texts.append((self.line, f"{name}: {value}"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        self._flush()
        self._code -= tag in ("code", "pre", "script", "style", "kbd", "svg")

    def handle_data(self, data: str) -> None:
        self._text += "" if self._code else data

    def close(self) -> None:
        super().close()
        self._flush()

    def _flush(self) -> None:
        if _says_something(self._text):
            self.texts.append((self.line, " ".join(self._text.replace(_GAP, " ").split())))
        self._text = ""


def main() -> int:
    for path in (LOCALE / language / "LC_MESSAGES" / "django.po" for language in LANGUAGES):
        if update(path):
            missing = sum(1 for message in read(path) if message.id and not message.string)
            sys.stdout.write(f"{path.relative_to(ROOT)}: {missing} without a translation\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
