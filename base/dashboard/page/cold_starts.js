// The picture of this project: when each layer of a cold adapter had come, and who computed it in
// the steps that did not wait. Time runs to the right, layers downwards.
import {byId, bytes, clockTime, element, seconds, setText, svg} from './format.js';

const kLeft = 74;
const kRight = 12;
const kTop = 18;

const kWho = {
  c: {class: 'cpu', key: 'c-cpu', word: 'CPU workers'},
  x: {class: 'xa', key: 'c-xa', word: 'x A by CPU workers, x A B by the GPU'},
  g: {class: 'gpu', key: 'c-gpu', word: 'GPU, the weights had come'},
  w: {class: 'wait', key: 'c-wait', word: 'GPU, waited for the weights'},
  v: {class: 'void', key: 'c-void', word: 'nobody in time: computed again'},
  '?': {class: 'unknown', key: 'c-free', word: 'not known'},
};

// When the step was at each layer: what it told, and straight lines between.
function layerTimes(step) {
  const known = [...step.layers_s.map((time) => (time >= 0 ? time : null)), step.end_s];
  if (known[0] === null) known[0] = step.begin_s;
  for (let i = 1, last = 0; i < known.length; ++i) {
    if (known[i] === null) continue;
    for (let j = last + 1; j < i; ++j) {
      known[j] = known[last] + ((known[i] - known[last]) * (j - last)) / (i - last);
    }
    last = i;
  }
  return known;
}

// [from, to] of each layer on the link: pieces travel one after another. When the first began is not
// told: it may have waited for the link, and is taken for twice as slow as most at most.
function linkTimes(start) {
  const order = start.there_s.map((time, layer) => ({time, layer})).filter((each) => each.time >= 0);
  order.sort((a, b) => a.time - b.time || a.layer - b.layer);
  const result = new Map();
  let from = Math.max(start.ordered_s, 0);
  const took = order.slice(1).map(({time}, i) => time - order[i].time).sort((a, b) => a - b);
  const usual = took[Math.floor(took.length / 2)] ?? 0;
  if (usual > 0) from = Math.max(from, order[0].time - 2 * usual);
  for (const {time, layer} of order) {
    result.set(layer, [Math.min(from, time), time]);
    from = time;
  }
  return result;
}

function ranges(who) {
  const text = [];
  for (let from = 0; from < who.length;) {
    let end = from;
    while (end < who.length && who[end] === who[from]) ++end;
    const layers = end - from === 1 ? `layer ${from}` : `layers ${from} to ${end - 1}`;
    text.push(`${layers}: ${(kWho[who[from]] ?? kWho['?']).word}`);
    from = end;
  }
  return text.join('; ');
}

export function summary(start) {
  const parts = [`${start.adapter}, rank ${start.rank}, ${bytes(start.bytes)}`];
  if (start.read_end_s >= 0) parts.push(`read from disk in ${seconds(start.read_end_s - start.read_begin_s)}`);
  if (start.failed) parts.push('it did not come');
  else if (start.arrived_s < 0) parts.push('on its way');
  else parts.push(`all of it on the device after ${seconds(start.arrived_s)}`);
  const first = start.steps[0];
  if (first !== undefined) {
    parts.push(`first step over after ${seconds(first.end_s)}`);
    parts.push(first.takeover > 0 ? `the GPU took over at layer ${first.takeover}` : ranges(first.who));
  }
  return parts.join(' · ');
}

function niceStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].find((step) => span / (step * power) <= most) * power;
}

export function drawColdStart(start, width) {
  const layers = start.there_s.length;
  const row = Math.max(5, Math.min(20, Math.floor(330 / Math.max(1, layers))));
  const hasDisk = start.read_begin_s >= 0;
  const first = kTop + (hasDisk ? 20 : 0);
  const height = first + layers * row + 24;
  const ends = [start.arrived_s, start.read_end_s, start.ordered_s, ...start.there_s,
                ...start.steps.map((step) => step.end_s)];
  const span = Math.max(1e-4, ...ends) * 1.02;
  const x = (time) => kLeft + (Math.max(0, time) / span) * (width - kLeft - kRight);
  const y = (layer) => first + layer * row;
  const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': summary(start)},
      svg('defs', {}, svg('pattern', {id: 'xa', width: 6, height: 6, patternUnits: 'userSpaceOnUse',
                                      patternTransform: 'rotate(45)'},
          svg('rect', {class: 'cpu', width: 3, height: 6}), svg('rect', {class: 'gpu', x: 3, width: 3, height: 6}))));
  const box = (attributes, title) => svg('rect', {rx: 1, ...attributes}, svg('title', {}, title));
  const wide = (from, to) => Math.max(1.5, x(to) - x(from));

  const step = niceStep(span, Math.max(2, Math.floor(width / 100)));
  for (let time = 0; time <= span; time += step) {
    picture.append(svg('line', {class: 'grid', x1: x(time), x2: x(time), y1: kTop - 4, y2: y(layers) + 4}),
                   svg('text', {x: x(time), y: height - 6, 'text-anchor': 'middle'}, time === 0 ? '0' : seconds(time)));
  }
  if (hasDisk) {
    const end = start.read_end_s >= 0 ? start.read_end_s : span;
    picture.append(svg('text', {x: kLeft - 8, y: kTop + 10, 'text-anchor': 'end'}, 'disk'),
                   box({class: 'disk', x: x(start.read_begin_s), y: kTop, width: wide(start.read_begin_s, end), height: 12},
                       `read from disk: ${seconds(end - start.read_begin_s)}`));
  }
  const every = Math.ceil(14 / row);
  for (let layer = 0; layer < layers; ++layer) {
    if (layer % every !== 0) continue;
    picture.append(svg('text', {x: kLeft - 8, y: y(layer) + Math.min(row, 14) - 3, 'text-anchor': 'end'},
                       layer === 0 ? 'layer 0' : String(layer)));
  }
  // The upper part of a row is the link's, the lower the step's.
  const upper = Math.max(2, Math.round(row * 0.36));
  const link = linkTimes(start);
  const begun = Math.min(...[...link.values()].map(([from]) => from));
  if (begun > start.ordered_s && start.ordered_s >= 0) {
    const [layer] = [...link].find(([, [from]]) => from === begun);
    picture.append(box({class: 'load', x: x(start.ordered_s), y: y(layer) + 1 + upper / 2 - 0.5,
                        width: wide(start.ordered_s, begun), height: 1}, 'ordered, and not on the link yet'));
  }
  for (const [layer, [from, to]] of link) {
    picture.append(box({class: 'load', x: x(from), y: y(layer) + 1, width: wide(from, to), height: upper},
                       `layer ${layer}: weights there after ${seconds(to)}`));
  }
  for (const [number, each] of start.steps.entries()) {
    const times = layerTimes(each);
    for (let layer = 0; layer < each.who.length; ++layer) {
      const who = kWho[each.who[layer]] ?? kWho['?'];
      const [from, to] = [times[layer], times[layer + 1]];
      picture.append(box({
        class: who.class, fill: who.class === 'xa' ? 'url(#xa)' : null, x: x(from), y: y(layer) + upper + 1,
        width: wide(from, to), height: Math.max(2, row - upper - 2),
      }, `step ${number + 1}, layer ${layer}: ${who.word}, ${seconds(to - from)}`));
    }
  }
  const takeover = start.steps[0]?.takeover ?? -1;
  if (takeover > 0) {
    const at = layerTimes(start.steps[0])[takeover];
    const right = x(at) > width * 0.6;
    picture.append(
        svg('line', {class: 'takeover', x1: x(at), x2: x(at), y1: kTop - 6, y2: y(layers) + 2}),
        svg('line', {class: 'takeover', x1: kLeft, x2: width - kRight, y1: y(takeover), y2: y(takeover)}),
        svg('text', {class: 'strong', x: x(at) + (right ? -5 : 5), y: kTop - 8, 'text-anchor': right ? 'end' : 'start'},
            width < 500 ? `takeover: layer ${takeover}` :
              `the GPU takes over at layer ${takeover}, after ${seconds(at)}`));
  }
  return picture;
}

export class ColdStarts {
  constructor() {
    this.chosen = null;  // null: the newest
    this.starts = [];
    const keys = [['c-load', 'weights on the link'], ['c-disk', 'read from disk'],
                  ...['c', 'x', 'g', 'w', 'v'].map((letter) => [kWho[letter].key, kWho[letter].word])];
    byId('cold-legend').replaceChildren(...keys.map(([key, word]) =>
      element('li', {}, element('span', {class: `key ${key}`}), word)));
    let width = 0;
    new ResizeObserver(() => {
      if (byId('cold-picture').clientWidth === width) return;
      width = byId('cold-picture').clientWidth;
      this.draw();
    }).observe(byId('cold-picture'));
  }

  set(rows) {
    this.starts = [...rows.values()].sort((a, b) => b.number - a.number);
    this.draw();
  }

  choose(number) {
    this.chosen = number;
    this.draw();
  }

  draw() {
    if (this.starts.length === 0) return;
    const shown = this.starts.find((start) => start.number === this.chosen) ?? this.starts[0];
    setText(byId('cold-caption'), summary(shown));
    setText(byId('cold-note'), `the last ${this.starts.length}`);
    byId('cold-legend').hidden = false;
    byId('cold-picture').replaceChildren(drawColdStart(shown, Math.max(280, byId('cold-picture').clientWidth)));
    byId('cold-list').replaceChildren(element('div', {class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Last cold starts'}, this.list(shown)));
  }

  list(shown) {
    const head = ['When', 'Adapter', 'Rank', 'Disk', 'On the device', 'First step', 'CPU layers', 'Takeover'];
    const classes = ['rare', '', 'number rare', 'number rare', 'number', 'number', 'number rare', 'number'];
    const cells = (start) => {
      const step = start.steps[0];
      const byCpu = step === undefined ? 0 : [...step.who].filter((letter) => letter === 'c' || letter === 'x').length;
      return [
        clockTime(start.began_unix_ms), null, String(start.rank),
        start.read_end_s >= 0 ? seconds(start.read_end_s - start.read_begin_s) : '',
        start.failed ? 'failed' : seconds(start.arrived_s), step === undefined ? '' : seconds(step.end_s),
        step === undefined ? '' : `${byCpu} of ${step.who.length}`,
        step !== undefined && step.takeover > 0 ? `layer ${step.takeover}` : '',
      ];
    };
    return element('table', {},
        element('thead', {}, element('tr', {}, ...head.map((word, i) => element('th', {class: classes[i], scope: 'col'}, word)))),
        element('tbody', {}, ...this.starts.map((start) =>
          element('tr', {class: start === shown ? 'chosen' : null}, ...cells(start).map((text, i) =>
            element('td', {class: i === 1 ? 'name' : classes[i]}, i !== 1 ? text :
              element('button', {type: 'button', class: 'link', 'aria-label': `Show the cold start of ${start.adapter}, number ${start.number}`,
                                 'aria-pressed': String(start === shown), click: () => this.choose(start.number)},
                      start.adapter)))))));
  }
}
