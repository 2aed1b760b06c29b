// CPU workers by node and core, and how busy they were since the event before.
import {byId, element, fillBar, percent, setText} from './format.js';

let before = new Map();
let beforeMs = 0;

function worker(each, busy) {
  const where = each.cpu < 0 ? `worker slot ${each.worker_slot}` : `core ${each.cpu}`;
  const state = each.left_out ? 'left out' : each.up ? percent(busy) : 'down';
  const bar = element('div', {class: 'bar'});
  fillBar(bar, [{share: each.up ? busy : 0, class: 'c-cpu'}]);
  const more = [`${each.jobs} jobs`, each.restarts > 0 ? `${each.restarts} restarts` : '',
                each.last_end ? `last end: ${each.last_end}` : '', each.ours ? '' : 'started by another process'];
  return element('li', {class: each.up ? null : 'down', title: more.filter(Boolean).join('; ')},
                 element('span', {}, state), where, bar);
}

export function showWorkers(head) {
  const list = byId('worker-list');
  const seconds = (head.unix_ms - beforeMs) / 1000;
  const now = new Map();
  const nodes = new Map();
  let total = 0;
  for (const each of head.workers) {
    const id = `${each.group}/${each.worker_slot}`;
    now.set(id, each.busy_s);
    const known = before.get(id);
    const share = known === undefined || seconds <= 0 ? 0 : (each.busy_s - known) / seconds;
    const busy = Math.min(1, Math.max(0, share));
    total += busy;
    if (!nodes.has(each.node)) nodes.set(each.node, []);
    nodes.get(each.node).push(worker(each, busy));
  }
  before = now;
  beforeMs = head.unix_ms;
  const up = head.workers.filter((each) => each.up).length;
  setText(byId('workers-note'), head.workers.length === 0 ? '' :
      `${up} of ${head.workers.length} up, ${percent(total / head.workers.length)} busy`);
  if (nodes.size === 0) {
    list.replaceChildren(element('p', {class: 'hint'},
        'None. Requests to a cold adapter wait for its weights (docs/cold-start.md).'));
    return;
  }
  list.replaceChildren(...[...nodes].sort(([a], [b]) => a - b).map(([node, cores]) =>
      element('div', {class: 'node'}, element('h3', {}, node < 0 ? 'Any node' : `Node ${node}`),
              element('ul', {class: 'cores'}, ...cores))));
}
