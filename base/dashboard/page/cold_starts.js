// The cold starts: a picture of one, and a list of the last ones.
import {ColdPicture, drawOverview, firstEnd, isUnderWay, kWho, spanOf} from './cold_picture.js';
import {byId, bytes, clockTime, element, seconds, setText} from './format.js';

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

function summary(start) {
  const parts = [`${start.adapter}, rank ${start.rank}, ${bytes(start.bytes)}`];
  if (start.read_end_s >= 0) parts.push(`read from disk in ${seconds(start.read_end_s - start.read_begin_s)}`);
  const first = start.steps[0];
  if (first !== undefined) {
    parts.push(`first step done after ${seconds(first.end_s)}`);
    parts.push(first.takeover > 0 ? `the device took over at layer ${first.takeover}` : ranges(first.who));
  }
  return parts.join(' · ');
}

// "First token after 17 ms, load 3.7 s", as text and figures in turn.
function headline(start, nowMs) {
  const token = start.first_token_s >= 0 ? ['First token after ', seconds(start.first_token_s), ', load '] : ['Load '];
  if (start.failed) return [...token, 'failed'];
  if (start.arrived_s >= 0) return [...token, seconds(start.arrived_s)];
  const passed = Math.max(0, nowMs - start.began_unix_ms) / 1000;
  return [...token, seconds(passed), ' so far'];
}

export class ColdStarts {
  constructor() {
    this.chosen = null;  // null: the newest
    this.starts = [];
    this.nowMs = 0;
    this.window = null;  // [from, to] in seconds; null: what shows most
    const picture = byId('cold-picture');
    let width = 0;
    new ResizeObserver(() => {
      if (picture.clientWidth === width) return;
      width = picture.clientWidth;
      this.drawPicture();
    }).observe(picture);
    byId('cold-first').addEventListener('click', () => this.show(this.firstStep()));
    byId('cold-whole').addEventListener('click', () => this.show([0, this.span()]));
    byId('cold-in').addEventListener('click', () => this.zoom(0.5));
    byId('cold-out').addEventListener('click', () => this.zoom(2));
    picture.addEventListener('keydown', (event) => {
      const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (way === undefined) return;
      event.preventDefault();
      this.move(way / 8);
    });
    picture.addEventListener('pointerdown', (event) => picture.setPointerCapture(event.pointerId));
    picture.addEventListener('pointermove', (event) => {
      if ((event.buttons & 1) !== 0) this.move(-event.movementX / Math.max(1, picture.clientWidth));
    });
  }

  set(rows, nowMs) {
    const newest = this.starts[0]?.number;
    this.starts = [...rows.values()].sort((a, b) => b.number - a.number);
    this.nowMs = nowMs;
    if (this.chosen === null && newest !== this.starts[0]?.number) this.window = null;
    this.draw();
  }

  // The clock of one that is under way goes on.
  tick(nowMs) {
    this.nowMs = nowMs;
    if (this.starts.length > 0 && isUnderWay(this.shown())) this.drawPicture();
  }

  choose(number) {
    this.chosen = number;
    this.window = null;
    this.draw();
  }

  shown() {
    return this.starts.find((start) => start.number === this.chosen) ?? this.starts[0];
  }

  span() {
    return spanOf(this.shown(), this.nowMs);
  }

  firstStep() {
    const end = firstEnd(this.shown());
    return end === null ? [0, this.span()] : [0, Math.min(this.span(), 1.25 * end)];
  }

  // The first step alone where it would be a sliver beside the load.
  best() {
    const whole = [0, this.span()];
    const first = this.firstStep();
    return first[1] < 0.4 * whole[1] ? first : whole;
  }

  show(window) {
    this.window = window;
    this.drawPicture();
  }

  zoom(factor) {
    const [from, to] = this.window ?? this.best();
    const span = this.span();
    const wide = Math.min(span, Math.max(1e-4, (to - from) * factor));
    const begin = Math.min(Math.max(0, (from + to - wide) / 2), span - wide);
    this.show([begin, begin + wide]);
  }

  // By a share of what is shown.
  move(share) {
    const [from, to] = this.window ?? this.best();
    const by = Math.min(Math.max(share * (to - from), -from), Math.max(0, this.span() - to));
    this.show([from + by, to + by]);
  }

  draw() {
    if (this.starts.length === 0) return;
    this.drawPicture();
    byId('cold-list').replaceChildren(element('div', {class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Last cold starts'},
                                              this.list(this.shown())));
  }

  drawPicture() {
    if (this.starts.length === 0) return;
    const shown = this.shown();
    const span = this.span();
    const window = this.window ?? this.best();
    const width = Math.max(280, byId('cold-picture').clientWidth);
    const said = headline(shown, this.nowMs);
    byId('cold-headline').replaceChildren(...said.map((part, i) => (i % 2 === 1 ? element('b', {}, part) : part)));
    setText(byId('cold-caption'), summary(shown));
    setText(byId('cold-note'), `the last ${this.starts.length}`);
    for (const id of ['cold-headline', 'cold-zoom', 'cold-legend']) byId(id).hidden = false;
    const isFirst = firstEnd(shown) !== null && window[1] === this.firstStep()[1] && window[0] === 0;
    byId('cold-first').disabled = firstEnd(shown) === null;
    byId('cold-first').setAttribute('aria-pressed', String(isFirst));
    byId('cold-whole').setAttribute('aria-pressed', String(!isFirst && window[1] - window[0] >= span));
    const picture = new ColdPicture(shown, width, window, `${said.join('')} · ${summary(shown)}`);
    byId('cold-overview').replaceChildren(drawOverview(shown, width, span, window));
    byId('cold-picture').replaceChildren(picture.picture);
    byId('cold-legend').replaceChildren(...picture.legend());
  }

  list(shown) {
    const head = ['When', 'Adapter', 'Rank', 'Disk', 'First token', 'Load', 'CPU layers', 'Takeover'];
    const classes = ['rare', '', 'number rare', 'number rare', 'number', 'number', 'number rare', 'number'];
    const cells = (start) => {
      const step = start.steps[0];
      const byCpu = step === undefined ? 0 : [...step.who].filter((letter) => letter === 'c' || letter === 'x').length;
      return [
        clockTime(start.began_unix_ms), null, String(start.rank),
        start.read_end_s >= 0 ? seconds(start.read_end_s - start.read_begin_s) : '',
        start.first_token_s >= 0 ? seconds(start.first_token_s) : '',
        start.failed ? 'failed' : start.arrived_s >= 0 ? seconds(start.arrived_s) : 'loading',
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
