// The page's whole: what an event changes where.
import {ColdStarts} from './cold_starts.js';
import {latencyChart} from './charts.js';
import {Feed, apiKey, call, failureOf, setApiKey} from './feed.js';
import {byId, bytes, count, element, fillBar, inOrder, percent, seconds, setText} from './format.js';
import {showDecisions, showEngines} from './router.js';
import {AdapterTable} from './table.js';
import {Try} from './try.js';
import {showWorkers} from './workers.js';

const cold = new ColdStarts();
const tryOut = new Try();
let table = null;
let before = null;  // the head before, for rates

function tile(name, value, more = '') {
  return element('dl', {class: 'tile'}, element('dt', {}, name),
                 element('dd', {}, value, more === '' ? null : element('small', {}, more)));
}

function rate(head, of) {
  if (before === null || before.kind !== head.kind) return 0;
  const passed = (head.unix_ms - before.unix_ms) / 1000;
  return passed > 0 ? Math.max(0, (of(head) - of(before)) / passed) : 0;
}

function showTiles(head, tables) {
  const tiles = [tile('Running', count(head.running)), tile('Waiting', count(head.waiting))];
  if (head.kind === 'engine') {
    const starts = [...tables.adapters.values()].reduce((sum, row) => sum + row.cold_starts, 0);
    const hits = [...tables.adapters.values()].reduce((sum, row) => sum + row.hits, 0);
    tiles.push(tile('Generated', count(rate(head, (h) => h.counts.generation_tokens)), 'tokens/s'),
               tile('Prompts', count(rate(head, (h) => h.counts.prompt_tokens)), 'tokens/s'),
               tile('Device at work', percent(Math.min(1, rate(head, (h) => h.counts.step_s)))),
               tile('Adapter hits', count(hits), hits + starts > 0 ? `of ${count(hits + starts)}` : ''),
               tile('Cold starts', count(starts)));
  } else {
    const up = [...tables.engines.values()].filter((engine) => engine.up).length;
    tiles.push(tile('Engines', count(up), `of ${count(tables.engines.size)}`),
               tile('Routed', count(head.routed)), tile('Adapters', count(tables.adapters.size)));
  }
  byId('tiles').replaceChildren(...tiles);
}

function showPool(pool) {
  const parts = [['kv', 'KV of requests'], ['cached', 'KV kept for prefixes'], ['adapters', 'adapters'], ['free', 'free']];
  const words = parts.map(([name, word]) => `${word} ${percent(pool.pages > 0 ? pool[name] / pool.pages : 0)}`);
  byId('pool-bar').setAttribute('aria-label', `Page pool: ${words.join(', ')}`);
  fillBar(byId('pool-bar'), parts.map(([name, word]) => ({
    share: pool.pages > 0 ? pool[name] / pool.pages : 0, class: `c-${name}`, title: `${word}: ${count(pool[name])} pages`})));
  byId('pool-legend').replaceChildren(...parts.map(([name, word]) =>
    element('li', {}, element('span', {class: `key c-${name}`}), word, element('b', {}, count(pool[name])))));
  setText(byId('pool-note'), `${count(pool.pages)} pages of ${pool.page_tokens} tokens`);
  const used = pool.host_bytes > 0 ? pool.host_used / pool.host_bytes : 0;
  setText(byId('host-note'), `${bytes(pool.host_used)} of ${bytes(pool.host_bytes)}`);
  byId('host-bar').setAttribute('aria-label', `Host tier: ${percent(used)} in use`);
  fillBar(byId('host-bar'), [{share: used, class: 'c-adapters'}]);
}

function showLatency(head) {
  const column = (i) => head.latency.map((slice) => slice[i] ?? null);
  const first = latencyChart(byId('ttft-chart'), column(1), column(2), head.slice_s, 'First token');
  const each = latencyChart(byId('tpot-chart'), column(3), column(4), head.slice_s, 'Each further token');
  setText(byId('ttft-now'), seconds(first));
  setText(byId('tpot-now'), seconds(each));
}

function say(text, mood = '') {
  const node = byId('adapter-message');
  node.className = `message ${mood}`;
  setText(node, text);
}

// `body`: or a promise of it.
async function change(path, body, done) {
  say('…');
  try {
    const response = await call(path, {method: 'POST', body: JSON.stringify(await body)});
    if (!response.ok) throw new Error(await failureOf(response));
    say(done, 'good');
    return true;
  } catch (failure) {
    say(failure.message, 'bad');
    return false;
  }
}

// An engine's row has its folder; of a router's the engines are asked when it is wanted.
async function folderOf(row) {
  if (row.path !== undefined) return row.path;
  const response = await call('/v1/adapters');
  if (!response.ok) throw new Error(await failureOf(response));
  const found = (await response.json()).data.find((each) => each.name === row.name);
  if (found === undefined) throw new Error(`No engine has ${row.name} any more.`);
  return found.path;
}

async function pinBody(row, pinned) {
  return {lora_name: row.name, lora_path: await folderOf(row), pinned};
}

const act = {
  tryIt: (row) => tryOut.choose(row.name),
  unload: (row) => change('/v1/unload_lora_adapter', {lora_name: row.name}, `${row.name} is unloaded.`),
  pin: (row, pinned) => change('/v1/load_lora_adapter', pinBody(row, pinned),
                               `${row.name} is ${pinned ? 'pinned' : 'no longer pinned'}.`),
};

byId('load-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const name = byId('load-name').value.trim();
  const body = {lora_name: name, lora_path: byId('load-path').value.trim(), pinned: byId('load-pinned').checked};
  if (await change('/v1/load_lora_adapter', body, `${name} is loaded.`)) event.target.reset();
});

function showMayLoad(may) {
  for (const id of ['load-name', 'load-path', 'load-pinned', 'load-button']) byId(id).disabled = !may;
  if (!may && byId('adapter-message').textContent === '') {
    say('To load, unload and pin adapters here, start the server with --adapter-root DIR.');
  }
}

function update(head, tables, changed) {
  const main = byId('main');
  main.className = `is-${head.kind}`;
  main.hidden = false;
  if (table?.kind !== head.kind) table = new AdapterTable(head.kind, act);
  showTiles(head, tables);
  showLatency(head);
  if (head.kind === 'engine') {
    setText(byId('what'), `${head.engine.model} · ${head.engine.version} · ${head.engine.state}`);
    showPool(head.pool);
    showWorkers(head);
    if (changed.has('cold_starts')) cold.set(tables.cold_starts, head.unix_ms);
    else cold.tick(head.unix_ms);
  } else {
    setText(byId('what'), 'router');
    showEngines(head, tables.engines);
    if (changed.has('decisions')) showDecisions(tables.decisions);
  }
  document.title = `Tandem · ${head.kind === 'engine' ? head.engine.model : 'router'}`;
  if (changed.has('adapters') || before?.may_load !== head.may_load) {
    table.set(tables.adapters, head.may_load);
    showMayLoad(head.may_load);
    tryOut.setModels(head.model ?? head.engine.model, [...tables.adapters.keys()].sort(inOrder));
  }
  before = head;
}

function askForKey(note) {
  setText(byId('key-note'), note || 'The key stays in this tab and is gone when the tab is closed.');
  byId('key-input').value = apiKey();
  if (!byId('key-dialog').open) byId('key-dialog').showModal();
}

function status(word, text) {
  const link = byId('link');
  link.className = word;
  setText(link, word === 'key' ? 'needs an API key' : text);
  if (word === 'key') askForKey(text || 'This server asks for its API key. The key stays in this tab and is gone when the tab is closed.');
}

const feed = new Feed(update, status);
byId('key-button').addEventListener('click', () => askForKey(''));
byId('key-cancel').addEventListener('click', () => byId('key-dialog').close());
byId('key-form').addEventListener('submit', () => {
  setApiKey(byId('key-input').value.trim());
  feed.start();
});
feed.start();
