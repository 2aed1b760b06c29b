// Lines over the last minutes.
import {seconds, svg} from './format.js';

const kHeight = 112;
const kLeft = 46;
const kBottom = 16;

function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) {
    if (value <= step * power) return step * power;
  }
  return value;
}

// Runs of neighbours that are known, as one path.
function path(values, x, y) {
  let text = '';
  let open = false;
  values.forEach((value, i) => {
    if (value === null) {
      open = false;
      return;
    }
    text += `${open ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
  });
  return text;
}

// `median`, `p95`: seconds by slice, null where nothing ended.
export function latencyChart(where, median, p95, sliceSeconds, name) {
  const width = Math.max(260, where.clientWidth);  // so that letters are as large everywhere
  const known = [...median, ...p95].filter((value) => value !== null);
  const top = known.length > 0 ? niceAbove(Math.max(...known)) : 1;
  const last = median.length - 1;
  const x = (i) => kLeft + (i / last) * (width - kLeft - 4);
  const y = (value) => 6 + (1 - value / top) * (kHeight - kBottom - 6);
  const newest = median.findLast((value) => value !== null);
  const picture = svg('svg', {
    viewBox: `0 0 ${width} ${kHeight}`, role: 'img',
    'aria-label': newest === undefined ? `${name}: none in the last minutes`
        : `${name}: latest median ${seconds(newest)}`,
  });
  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    picture.append(
        svg('line', {class: 'grid', x1: kLeft, x2: width - 4, y1: at, y2: at}),
        svg('text', {x: kLeft - 6, y: at + 4, 'text-anchor': 'end'},
            known.length === 0 ? '' : share === 0 ? '0' : seconds(top * share)));
  }
  const minutes = Math.round(last * sliceSeconds / 60);
  for (let m = minutes; m >= 0; --m) {
    const i = last - (m * 60) / sliceSeconds;
    if (i < 0) continue;
    picture.append(svg('text', {x: x(i), y: kHeight - 2, 'text-anchor': m === 0 ? 'end' : 'middle'},
                       m === 0 ? 'now' : `-${m} min`));
  }
  picture.append(svg('path', {class: 'p95', d: path(p95, x, y)}),
                 svg('path', {class: 'median', d: path(median, x, y)}));
  // One that has no neighbours would be no line.
  median.forEach((value, i) => {
    if (value === null || (median[i - 1] ?? null) !== null || (median[i + 1] ?? null) !== null) return;
    picture.append(svg('circle', {class: 'dot', cx: x(i), cy: y(value), r: 2.5}));
  });
  if (known.length === 0) {
    picture.append(svg('text', {x: (kLeft + width) / 2, y: kHeight / 2, 'text-anchor': 'middle'},
                       `none in the last ${minutes} minutes`));
  }
  where.replaceChildren(picture);
  return newest ?? null;
}
