"""The page's one style sheet: system fonts, light and dark, from a phone to a wide screen."""

STYLESHEET = """
:root {
  color-scheme: light dark;
  --paper: #fbfbf9; --card: #ffffff; --ink: #1f2430; --quiet: #555d6b; --line: #dfe2e7; --accent: #0069a4;
  --good: #00694d; --bad: #a33f00;
  --serif: ui-serif, "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, "Times New Roman", serif;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181d; --card: #1c2027; --ink: #e8eaee; --quiet: #a5adba; --line: #333a45; --accent: #7cc4f2;
    --good: #5fd3ae; --bad: #f7a06a;
  }
  figure img { filter: brightness(0.93); }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.6 var(--sans); }
main, header, footer { max-width: 70rem; margin: 0 auto; padding: 0 clamp(1rem, 4vw, 2.5rem); }
header { padding-top: clamp(2rem, 6vw, 4rem); }
footer { color: var(--quiet); font-size: 0.85rem; padding-top: 2.5rem; padding-bottom: 3rem; }
section {
  margin-top: clamp(2.2rem, 6vw, 3.6rem); padding-top: clamp(1.2rem, 3vw, 1.8rem);
  border-top: 1px solid var(--line);
}

h1, h2 { font-family: var(--serif); font-weight: 600; line-height: 1.2; text-wrap: balance; }
h1 { font-size: clamp(1.7rem, 4.5vw, 2.5rem); margin: 0 0 0.4rem; letter-spacing: -0.01em; }
h2 { font-size: clamp(1.3rem, 3vw, 1.6rem); margin: 0 0 0.5rem; }
p { max-width: 44rem; margin: 0 0 1rem; }
.eyebrow { color: var(--quiet); font-size: 0.9rem; margin: 0 0 0.6rem; }
.headline { font: 400 clamp(1.15rem, 2.6vw, 1.45rem)/1.5 var(--serif); max-width: 48rem; margin: 1.2rem 0 1rem; }
.beside { font-size: 0.95rem; color: var(--quiet); max-width: 48rem; }
a { color: var(--accent); text-underline-offset: 0.2em; text-decoration-thickness: 1px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; }
nav ul {
  list-style: none; display: flex; flex-wrap: wrap; gap: 0.3rem 1.4rem; padding: 0; margin: 1.4rem 0 0;
  font-size: 0.95rem;
}
nav a { display: inline-block; padding: 0.25rem 0; }

.grid { display: grid; gap: 1.2rem; margin: 1.4rem 0; align-items: start; }
.two { grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); }
.three { grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
.four { grid-template-columns: repeat(auto-fill, minmax(min(46%, 13.5rem), 1fr)); gap: 0.9rem; }
.strip { overflow-x: auto; margin: 1.2rem 0; }
.strip figure { min-width: 46rem; }
figure { margin: 0; min-width: 0; }
figure img {
  display: block; width: 100%; height: auto; padding: 0.5rem;
  background: #fff; border: 1px solid var(--line); border-radius: 6px;
}
figcaption { color: var(--quiet); font-size: 0.85rem; line-height: 1.45; margin-top: 0.5rem; }

.scroll, pre { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; background: var(--card); }
.scroll { margin: 1.2rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.45rem 0.75rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
thead th {
  border-top: 0; font-weight: 600; color: var(--quiet); font-size: 0.82rem; line-height: 1.3;
  vertical-align: bottom; white-space: normal; min-width: 4.5rem;
}
tbody th { font-weight: 500; position: sticky; left: 0; background: var(--card); }
caption { text-align: left; color: var(--quiet); font-size: 0.85rem; padding: 0.6rem 0.75rem 0.2rem; }
details table { width: auto; }
details td, details th:last-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
details caption { display: none; }
.prose td, .prose th { text-align: left; white-space: normal; vertical-align: top; }
.prose td:last-child { min-width: 26rem; }
td small { color: var(--quiet); font-size: 0.85em; }
.note { color: var(--quiet); font-size: 0.85rem; line-height: 1.45; max-width: 48rem; margin: -0.7rem 0 1.4rem; }
.yes { color: var(--good); }
.no { color: var(--bad); font-weight: 600; }
.mark { width: 0.8em; height: 0.8em; margin-right: 0.5em; vertical-align: -0.05em; overflow: visible; }

dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: 1rem 1.4rem; margin: 1.2rem 0; }
dt { color: var(--quiet); font-size: 0.85rem; }
dd { margin: 0; font: 500 1.45rem/1.3 var(--serif); font-variant-numeric: tabular-nums lining-nums; }
code, pre { font-family: var(--mono); font-size: 0.88em; }
pre { padding: 0.8rem 1rem; margin: 0 0 1rem; }
pre code { font-size: 1em; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; padding: 0.4rem 0; font-weight: 500; }
@media print { nav { display: none; } figure, tr { break-inside: avoid; } body { background: #fff; } }
"""
