// The picture of a cold start: when each layer of the adapter had arrived, and who computed it in the
// steps that did not wait. Time runs to the right, layers downwards.
import {element, seconds, svg} from './format.js';

const kLeft = 74;
const kRight = 12;
const kTop = 18;

// Who computed a layer, by the letter that the server tells.
export const kWho = {
  c: {class: 'cpu', key: 'c-cpu', by: 'CPU workers', legend: 'whole layer', word: 'CPU workers'},
  x: {class: 'xa', key: 'c-xa', by: 'CPU workers', legend: 'x A, and the device x A B',
      word: 'CPU workers x A, the device x A B'},
  g: {class: 'gpu', key: 'c-gpu', by: 'Device', legend: 'weights were there', word: 'device, weights were there'},
  w: {class: 'wait', key: 'c-wait', by: 'Device', legend: 'waited for weights', word: 'device, waited for weights'},
  v: {class: 'void', key: 'c-void', by: 'Device', legend: 'computed again: no result in time',
      word: 'computed again: no result in time'},
  '?': {class: 'unknown', key: 'c-free', by: 'Device', legend: 'not known', word: 'not known'},
};

// Whether more of it is to come.
export function isUnderWay(start) {
  return start.arrived_s < 0 && !start.failed;
}

// Seconds that the whole of it took, up to now if it is under way.
export function spanOf(start, nowMs) {
  const now = isUnderWay(start) ? (nowMs - start.began_unix_ms) / 1000 : 0;
  return 1.02 * Math.max(1e-4, now, start.arrived_s, start.read_end_s, start.ordered_s, start.first_token_s,
                         ...start.there_s, ...start.steps.map((step) => step.end_s));
}

// The end of the first step, which is where the point of the picture is; null: there was none.
export function firstEnd(start) {
  return start.steps[0]?.end_s ?? null;
}

// When the step was at each layer: what is known, and straight lines between.
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

// [from, to] of each layer on the link, where layers travel one after another. When the first began
// is not told, as it may have waited for the link: it is drawn twice as long as a usual one at most.
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

function niceStep(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 5, 10].find((step) => span / (step * power) <= most) * power;
}

// Two bars over the whole time: how soon the first token came, and how long the load took. `shown`,
// [from, to] in seconds, is marked if it is a part of that time.
export function drawOverview(start, width, span, shown) {
  const x = (time) => kLeft + (Math.max(0, time) / span) * (width - kLeft - kRight);
  const row = (y, name, kind, from, to, told) => {
    const right = x(to) + 60 > width;
    return [
      svg('text', {x: kLeft - 8, y: y + 10, 'text-anchor': 'end'}, name),
      svg('rect', {class: 'track', x: kLeft, y, width: width - kLeft - kRight, height: 12, rx: 2}),
      svg('rect', {class: kind, x: x(from), y, width: Math.max(2, x(to) - x(from)), height: 12, rx: 2}),
      right ? null : svg('text', {class: 'strong', x: x(to) + 5, y: y + 10}, told),
    ].filter((each) => each !== null);
  };
  const picture = svg('svg', {viewBox: `0 0 ${width} 36`, 'aria-hidden': 'true'});
  if (start.first_token_s >= 0) {
    picture.append(...row(2, 'first token', 'cpu', 0, start.first_token_s, seconds(start.first_token_s)));
  }
  const end = start.arrived_s >= 0 ? start.arrived_s : span / 1.02;
  picture.append(...row(19, 'load', 'load', Math.max(0, start.ordered_s), end, seconds(end)));
  if (shown[0] > 0 || shown[1] < span) {
    picture.append(svg('rect', {class: 'shown', x: x(shown[0]), y: 0.5, width: Math.max(3, x(shown[1]) - x(shown[0])),
                                height: 33, rx: 2}));
  }
  return picture;
}

// Draws what falls into [from, to] seconds.
export class ColdPicture {
  constructor(start, width, [from, to], label) {
    this.start = start;
    this.width = width;
    this.from = from;
    this.to = to;
    const layers = start.there_s.length;
    this.row = Math.max(5, Math.min(20, Math.floor(330 / Math.max(1, layers))));
    this.hasDisk = start.read_begin_s >= 0;
    this.first = kTop + (this.hasDisk ? 20 : 0);
    this.bottom = this.first + layers * this.row;
    this.used = new Set();  // keys of the legend
    this.picture = svg('svg', {viewBox: `0 0 ${width} ${this.bottom + 40}`, role: 'img', 'aria-label': label},
        svg('defs', {}, svg('pattern', {id: 'xa', width: 6, height: 6, patternUnits: 'userSpaceOnUse',
                                        patternTransform: 'rotate(45)'},
            svg('rect', {class: 'cpu', width: 3, height: 6}), svg('rect', {class: 'gpu', x: 3, width: 3, height: 6}))));
    this.drawAxes();
    this.drawDisk();
    this.drawLink();
    this.drawSteps();
    this.drawTakeover();
  }

  x(time) {
    const share = (Math.min(Math.max(time, this.from), this.to) - this.from) / (this.to - this.from);
    return kLeft + share * (this.width - kLeft - kRight);
  }

  y(layer) {
    return this.first + layer * this.row;
  }

  box(key, attributes, from, to, title) {
    if (to < this.from || from > this.to) return;
    this.used.add(key);
    this.picture.append(svg('rect', {rx: 1, ...attributes, x: this.x(from), width: Math.max(1.5, this.x(to) - this.x(from))},
                            svg('title', {}, title)));
  }

  drawAxes() {
    const step = niceStep(this.to - this.from, Math.max(2, Math.floor(this.width / 100)));
    for (let i = Math.ceil(this.from / step); i * step <= this.to; ++i) {
      const at = this.x(i * step);
      this.picture.append(svg('line', {class: 'grid', x1: at, x2: at, y1: kTop - 4, y2: this.bottom + 4}),
                          svg('text', {x: at, y: this.bottom + 18, 'text-anchor': 'middle'}, i === 0 ? '0' : seconds(i * step)));
    }
    const every = Math.ceil(14 / this.row);
    for (let layer = 0; layer < this.start.there_s.length; layer += every) {
      this.picture.append(svg('text', {x: kLeft - 8, y: this.y(layer) + Math.min(this.row, 14) - 3, 'text-anchor': 'end'},
                              layer === 0 ? 'layer 0' : String(layer)));
    }
  }

  drawDisk() {
    if (!this.hasDisk) return;
    const {read_begin_s: begin, read_end_s: known} = this.start;
    const end = known >= 0 ? known : this.to;
    this.picture.append(svg('text', {x: kLeft - 8, y: kTop + 10, 'text-anchor': 'end'}, 'disk'));
    this.box('disk', {class: 'disk', y: kTop, height: 12}, begin, end, `read from disk: ${seconds(end - begin)}`);
  }

  // The upper part of a row is the link's, the lower the step's.
  get upper() {
    return Math.max(2, Math.round(this.row * 0.36));
  }

  drawLink() {
    const link = linkTimes(this.start);
    const begun = Math.min(...[...link.values()].map(([from]) => from));
    if (begun > this.start.ordered_s && this.start.ordered_s >= 0) {
      const layer = [...link].find(([, [from]]) => from === begun)?.[0] ?? 0;
      this.box('load', {class: 'load queued', y: this.y(layer) + 1 + this.upper / 2 - 0.5, height: 1},
               this.start.ordered_s, Math.min(begun, this.to), 'ordered, waits for the link');
    }
    for (const [layer, [from, to]] of link) {
      this.box('load', {class: 'load', y: this.y(layer) + 1, height: this.upper}, from, to,
               `layer ${layer}: weights arrived after ${seconds(to)}`);
    }
    const later = [...link.values()].filter(([from]) => from > this.to).length;
    const missing = isUnderWay(this.start) ? this.start.there_s.length - link.size : 0;
    if (later + missing === 0) return;
    const what = later + missing === this.start.there_s.length ? 'all weights arrive later'
        : `weights of ${later + missing} layers arrive later`;
    this.picture.append(svg('text', {class: 'later', x: this.width - kRight, y: this.bottom + 34, 'text-anchor': 'end'}, `${what} →`));
  }

  drawSteps() {
    for (const [number, step] of this.start.steps.entries()) {
      const times = layerTimes(step);
      for (let layer = 0; layer < step.who.length; ++layer) {
        const letter = step.who[layer] in kWho ? step.who[layer] : '?';
        const who = kWho[letter];
        this.box(letter, {class: who.class, fill: who.class === 'xa' ? 'url(#xa)' : null, y: this.y(layer) + this.upper + 1,
                          height: Math.max(2, this.row - this.upper - 2)}, times[layer], times[layer + 1],
                 `step ${number + 1}, layer ${layer}: ${who.word}, ${seconds(times[layer + 1] - times[layer])}`);
      }
    }
  }

  drawTakeover() {
    const step = this.start.steps[0];
    if (step === undefined || step.takeover <= 0) return;
    const time = layerTimes(step)[step.takeover];
    if (time < this.from || time > this.to) return;
    const at = this.x(time);
    const right = at > this.width * 0.6;
    this.picture.append(
        svg('line', {class: 'takeover', x1: at, x2: at, y1: kTop - 6, y2: this.bottom + 2}),
        svg('line', {class: 'takeover', x1: kLeft, x2: this.width - kRight, y1: this.y(step.takeover), y2: this.y(step.takeover)}),
        svg('text', {class: 'strong', x: at + (right ? -5 : 5), y: kTop - 8, 'text-anchor': right ? 'end' : 'start'},
            this.width < 500 ? `takeover: layer ${step.takeover}`
                : `the device takes over at layer ${step.takeover}, after ${seconds(time)}`));
  }

  // By where the work is done: only what the picture has.
  legend() {
    const groups = new Map();
    const add = (group, key, word) => groups.set(group, [...(groups.get(group) ?? []), [key, word]]);
    if (this.used.has('disk')) add('Disk', 'c-disk', 'read into host memory');
    if (this.used.has('load')) add('Link', 'c-load', 'weights arrive');
    for (const [letter, who] of Object.entries(kWho)) {
      if (this.used.has(letter)) add(who.by, who.key, who.legend);
    }
    return [...groups].map(([group, entries]) => element('li', {}, element('strong', {}, group),
        ...entries.flatMap(([key, word]) => [element('span', {class: `key ${key}`}), word])));
  }
}
