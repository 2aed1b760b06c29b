// What a router's dashboard shows beyond an engine's: the engines, and where requests went and why.
import {byId, clockTime, count, element, fillBar, percent, place, seconds, setText} from './format.js';

const kTerms = [
  ['wait_s', 'queue'], ['cold_s', 'adapter load'], ['compute_s', 'prompt'], ['decode_s', 'output tokens'],
  ['others_s', 'slower others'], ['later_s', 'evictions'], ['misses_s', 'missed objectives'],
];

function table(head, rows) {
  return element('table', {},
      element('thead', {}, element('tr', {}, ...head.map(([word, style]) => element('th', {class: style, scope: 'col'}, word)))),
      element('tbody', {}, ...rows.map((cells) =>
        element('tr', {}, ...cells.map((cell, i) => element('td', {class: head[i][1]}, cell))))));
}

function stateOf(engine) {
  if (!engine.up) return element('span', {class: 'bad'}, engine.why_not ?? 'down');
  return engine.draining ? 'draining' : engine.rests ? 'rests' : engine.accepts ? 'accepts' : 'takes nothing';
}

export function showEngines(head, engines) {
  setText(byId('policy'), `policy ${head.policy}, ${count(head.waiting)} requests wait for an engine`);
  const columns = [['Engine', 'name'], ['State', ''], ['Running', 'number'], ['Waiting', 'number'],
                   ['Sum of ranks', 'number rare'], ['KV in use', 'rare'], ['From this router', 'number rare']];
  byId('engines-list').replaceChildren(table(columns, [...engines.values()].map((engine) => {
    const bar = element('div', {class: 'bar thin', role: 'img'});
    const used = engine.kv_tokens > 0 ? 1 - engine.kv_free_tokens / engine.kv_tokens : 0;
    const share = Math.min(1, Math.max(0, used));
    bar.setAttribute('aria-label', `${percent(share)} of the KV cache is in use`);
    fillBar(bar, [{share, class: 'c-kv', title: percent(share)}]);
    return [place(engine.url), stateOf(engine), String(engine.running ?? '–'), String(engine.waiting ?? '–'),
            String(engine.rank_sum ?? '–'), bar, count(engine.sent)];
  })));
}

// The terms of the chosen engine's cost, each by its share.
function costBar(decision) {
  const bar = element('div', {class: 'parts', role: 'img'});
  const terms = kTerms.map(([name, word], i) => ({word, i, value: decision.terms[name] ?? 0}));
  const total = terms.reduce((sum, term) => sum + term.value, 0);
  bar.setAttribute('aria-label', terms.filter((term) => term.value > 0)
      .map((term) => `${term.word} ${seconds(term.value)}`).join(', ') || 'no cost');
  fillBar(bar, terms.map((term) => ({share: total > 0 ? term.value / total : 0, class: `p${term.i}`,
                                     title: `${term.word}: ${seconds(term.value)}`})));
  return bar;
}

export function showDecisions(decisions) {
  const rows = [...decisions.values()].sort((a, b) => b.number - a.number);
  const byEngine = new Map();
  for (const row of rows) byEngine.set(row.engine, (byEngine.get(row.engine) ?? 0) + 1);
  setText(byId('decision-share'), rows.length === 0 ? 'none yet' : `the last ${rows.length}: ` +
      [...byEngine].map(([engine, times]) => `${percent(times / rows.length)} to ${place(engine)}`).join(', '));
  byId('cost-legend').replaceChildren('The cost is the time that all requests together lose: ',
      ...kTerms.flatMap(([, word], i) => [element('span', {class: `key p${i}`}), ` ${word}`]));
  const columns = [['When', 'rare'], ['Model', 'name'], ['Prompt', 'number rare'], ['Engine', 'name'],
                   ['Adapter was', 'rare'], ['Cost', 'number'], ['Why', ''], ['Next best', 'rare name']];
  byId('decision-list').replaceChildren(element('div', {class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Last decisions'},
      table(columns, rows.map((row) => [
        clockTime(row.unix_ms), row.model, count(row.prompt_tokens), place(row.engine), row.tier,
        row.terms === undefined ? '' : seconds(row.cost_s), row.terms === undefined ? 'no terms with this policy' : costBar(row),
        row.next === null ? '' : `${place(row.next.engine)}: ${seconds(row.next.cost_s)}`,
      ]))));
}
