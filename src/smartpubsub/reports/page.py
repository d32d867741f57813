"""A report's page: one self-contained HTML file, for light and dark screens and paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from smartpubsub.reports.looks import variables


@dataclass(frozen=True, kw_only=True)
class Card:
    """A key figure at the top of the page."""

    value: str
    what: str
    beside: str = ""
    """The value to compare it with."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A figure or a table, with an explanation."""

    name: str
    title: str
    text: str
    body: str
    """HTML: a figure for the page, or a table."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, paper: str) -> str:
    """A table; columns whose heads begin with the word for the paper are in its colour."""
    kinds = [" class=paper" if cell.startswith(paper) else "" for cell in head]
    cells = "".join(f"<th{k}>{escape(cell)}</th>" for k, cell in zip(kinds, head, strict=True))
    lines = "".join(
        "<tr>"
        + "".join(f"<td{k}>{escape(cell)}</td>" for k, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    inner = f"<thead><tr>{cells}</tr></thead><tbody>{lines}</tbody>"
    return f"<div class=scroll><table>{inner}</table></div>"


def page(
    *, title: str, about: str, cards: Sequence[Card], sections: Sequence[Section], notes: str
) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in sections)
    shown = "".join(
        f"<div class=card><b>{escape(card.value)}</b><span>{escape(card.what)}</span>"
        f"<small>{escape(card.beside)}</small></div>"
        for card in cards
    )
    body = "".join(
        f'<section id="{s.name}"><h2 id="{s.name}-title">{escape(s.title)}</h2>'
        f"<p>{escape(s.text)}</p>{s.body}</section>"
        for s in sections
    )
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_style()}</style></head><body>"
        f"<header><p class=kicker>SmartPubSub report</p><h1>{escape(title)}</h1>"
        f"<p class=lead>{escape(about)}</p></header>"
        f"<div class=cards>{shown}</div><nav>{links}</nav><main>{body}</main>"
        f"<footer>{notes}</footer></body></html>\n"
    )


def _style() -> str:
    return (
        ":root{color-scheme:light dark;--page:#f6f7f9;--sheet:#ffffff;"
        f"--font:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;{variables(dark=False)}}}"
        "@media(prefers-color-scheme:dark){"
        f":root{{--page:#12151b;--sheet:#1a1f28;{variables(dark=True)}}}}}"
        + """
*{box-sizing:border-box}
body{margin:0 auto;max-width:1200px;padding:2.5rem 1.25rem 4rem;background:var(--page);
color:var(--ink);font:16px/1.55 var(--font)}
h1{font-size:2.1rem;line-height:1.15;margin:.1em 0 .4em;letter-spacing:-.02em;text-wrap:balance}
h2{font-size:1.2rem;margin:0 0 .3rem;letter-spacing:-.01em}
.kicker{margin:0;color:var(--quiet);font-size:.8rem;letter-spacing:.08em;text-transform:uppercase}
.lead{max-width:46rem;color:var(--quiet);font-size:1.05rem;margin:0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:.8rem;
margin:1.8rem 0}
.card{background:var(--sheet);border:1px solid var(--grid);border-radius:12px;padding:1rem 1.1rem}
.card b{display:block;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em;
font-variant-numeric:tabular-nums}
.card span{display:block;font-size:.9rem}
.card small{color:var(--paper);font-size:.82rem}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:0 0 1.6rem;font-size:.9rem}
nav a{color:var(--quiet);text-decoration:none;border-bottom:1px solid var(--grid)}
nav a:hover{color:var(--ink)}
section{background:var(--sheet);border:1px solid var(--grid);border-radius:14px;
padding:1.4rem 1.5rem 1.2rem;margin:0 0 1.2rem}
section p{max-width:46rem;margin:.1rem 0 1rem;color:var(--quiet);font-size:.95rem}
svg{display:block;width:100%;height:auto}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.86rem;font-variant-numeric:tabular-nums}
th{font-weight:600;color:var(--quiet);font-size:.78rem;white-space:normal!important;vertical-align:bottom}
tbody tr:hover{background:var(--page)}
th,td{padding:.34rem .55rem;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}
th.paper,td.paper{color:var(--paper)}
tr:last-child td{border-bottom:0}
footer{color:var(--quiet);font-size:.85rem;margin-top:2rem}
footer code{font-size:.95em}
@media print{body{background:none;max-width:none;padding:0}nav{display:none}
section,.card{break-inside:avoid}}
"""
    )
