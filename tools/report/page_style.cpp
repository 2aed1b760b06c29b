#include "tools/report/page_style.h"

namespace tandem {

// .c0 .. .c8 are the colours of plots: a contrast of 3:1 or more against the page, and a distance
// of 9 or more in OKLab (times 100) between any two of the first eight, also with protan, deutan
// and tritan vision. .l0 .. .l8 are the dashes. Paper is light whatever the screen is.
const std::string_view kPageStyle = R"css(
:root { color-scheme: light; --back: #fff; --text: #1c2024; --dim: #5b6570; --rule: #d9dee3;
  --card: #f4f6f8; --good: #12703f; --bad: #b3261e;
  --s0: #0a5fb4; --s1: #dd7711; --s2: #550022; --s3: #3399ee; --s4: #aa0000; --s5: #002266;
  --s6: #774466; --s7: #aa6688; --s8: #7c858f; }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; --back: #14171a;
  --text: #e6e9ec; --dim: #9aa5b1; --rule: #343b42; --card: #1d2227; --good: #57cf8f; --bad: #ff8077;
  --s0: #5aa2ff; --s1: #ff9a3d; --s2: #aaffff; --s3: #ff33aa; --s4: #ffff33; --s5: #ddbbff;
  --s6: #aa8855; --s7: #33dd99; --s8: #b4bcc5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 88rem; padding: 1.25rem; background: var(--back);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; max-width: 60rem; color: var(--dim); }
.summary { display: grid; gap: .6rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); }
.summary div { display: grid; grid-row: span 3; grid-template-rows: subgrid; row-gap: 0;
  padding: .5rem .8rem; background: var(--card); border-left: 3px solid var(--rule);
  break-inside: avoid; }
.summary dt, .summary .note { color: var(--dim); font-size: .85rem; text-wrap: balance; }
.summary dd { margin: 0; font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.summary dd.note { font-weight: 400; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { font-weight: 600; color: var(--dim); vertical-align: bottom; overflow-wrap: normal; }
td { overflow-wrap: break-word; max-width: 40rem; }
td.w { min-width: min(16rem, 60vw); } .facts td { overflow-wrap: anywhere; max-width: none; }
.n { text-align: right; } td.n { white-space: nowrap; }
th button { all: unset; cursor: pointer; } th button:focus-visible { outline: 2px solid var(--s0); }
th button::after { content: "\a0\2195"; color: var(--rule); }
th[aria-sort] button::after { color: var(--text); }
th[aria-sort="ascending"] button::after { content: "\a0\2191"; }
th[aria-sort="descending"] button::after { content: "\a0\2193"; }
.good { color: var(--good); font-weight: 600; } .good::before { content: "\2713\a0"; }
.bad { color: var(--bad); font-weight: 600; } .bad::before { content: "\2717\a0"; }
.best { font-weight: 700; } .best::before { content: "\2605\a0"; }
.facts th { width: min(13rem, 32vw); vertical-align: top; } .facts { width: 100%; }
code { font: .9em ui-monospace, monospace; }
.plots { display: grid; gap: 1.5rem; align-items: start;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); }
figure { margin: 0; min-width: 0; break-inside: avoid; } figcaption { font-weight: 600; }
figure > svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--dim); font: 12px system-ui, sans-serif; } svg .label { fill: var(--text); }
.grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--dim); stroke-width: 1; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.out { stroke-width: 4; } li.out { font-weight: 700; }
.dots { fill: var(--c); stroke: var(--c); stroke-width: 1; }
.shapes { fill: var(--back); stroke: var(--c); stroke-width: 1.75; }
figure:has(li:hover .c0, .c0:hover) > svg path:not(.c0),
figure:has(li:hover .c1, .c1:hover) > svg path:not(.c1),
figure:has(li:hover .c2, .c2:hover) > svg path:not(.c2),
figure:has(li:hover .c3, .c3:hover) > svg path:not(.c3),
figure:has(li:hover .c4, .c4:hover) > svg path:not(.c4),
figure:has(li:hover .c5, .c5:hover) > svg path:not(.c5),
figure:has(li:hover .c6, .c6:hover) > svg path:not(.c6),
figure:has(li:hover .c7, .c7:hover) > svg path:not(.c7),
figure:has(li:hover .c8, .c8:hover) > svg path:not(.c8) { opacity: .1; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .2rem 0; padding: 0;
  list-style: none; font-size: .9rem; }
.legend svg { width: 1.75rem; height: .75rem; margin-right: .4rem; }
.c0 { --c: var(--s0); } .c1 { --c: var(--s1); } .c2 { --c: var(--s2); } .c3 { --c: var(--s3); }
.c4 { --c: var(--s4); } .c5 { --c: var(--s5); } .c6 { --c: var(--s6); } .c7 { --c: var(--s7); }
.c8 { --c: var(--s8); }
.l1 { stroke-dasharray: 8 3; } .l2 { stroke-dasharray: 2 3; } .l3 { stroke-dasharray: 9 3 2 3; }
.l4 { stroke-dasharray: 5 5; } .l5 { stroke-dasharray: 14 4; } .l6 { stroke-dasharray: 4 2 1 2; }
.l7 { stroke-dasharray: 3 4; } .l8 { stroke-dasharray: 6 2; }
@media print { @page { margin: 12mm; } :root { font-size: 10px; }
  body { padding: 0; max-width: none; font-size: 9pt; print-color-adjust: exact; }
  h2 { break-after: avoid; } tr { break-inside: avoid; } thead { display: table-header-group; }
  .wide { overflow: visible; } .wide > svg { max-width: 100%; height: auto; } table { font-size: 7.5pt; } th, td { padding-right: .6rem; }
  td.w { min-width: 12rem; } th button::after { content: none; }
  .summary dd { font-size: 11pt; } .summary dt, .summary .note, .legend { font-size: 8pt; }
  .plots { grid-template-columns: repeat(2, 1fr); } }
)css";

// Conditions are nested to avoid "&&", because '&' is not allowed in XML.
const std::string_view kSortScript = R"js(
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  const text = (row, column) => row.cells[column].textContent.trim();
  const figure = (row, column) => parseFloat(text(row, column).replace(/^[^-+.0-9]+/, ""));
  heads.forEach((head, column) => {
    const of_figures = head.classList.contains("n");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const last = head.getAttribute("aria-sort");
      const first = of_figures ? "descending" : "ascending";
      const order = last === null ? first : last === "ascending" ? "descending" : "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        if (!of_figures) {
          return sign * text(a, column).localeCompare(text(b, column), "en", { numeric: true });
        }
        const x = figure(a, column), y = figure(b, column);
        // Those without a figure are last either way.
        return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
)js";

}  // namespace tandem
