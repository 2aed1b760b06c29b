// The server's events, and its calls. EventSource cannot send a key, so the stream is read by
// fetch. The key is in sessionStorage alone: this tab's, until it is closed.

const kKey = 'tandem-api-key';
const kHiddenMs = 5000;  // a page that nobody sees is told nothing

export function apiKey() {
  return sessionStorage.getItem(kKey) ?? '';
}

export function setApiKey(key) {
  if (key === '') sessionStorage.removeItem(kKey);
  else sessionStorage.setItem(kKey, key);
}

export function call(path, options = {}) {
  const headers = {...options.headers};
  if (apiKey() !== '') headers.Authorization = `Bearer ${apiKey()}`;
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  return fetch(path, {...options, headers, cache: 'no-store', credentials: 'omit'});
}

// What an answer that is no success says.
export async function failureOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text || `status ${response.status}`;
  }
}

// The data of each event, as it comes.
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  while (true) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    let from = 0;
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n', from)) {
      const event = rest.slice(from, end);
      from = end + 2;
      if (event.startsWith('data: ')) yield event.slice(6);
    }
    rest = rest.slice(from);
  }
}

const kKeys = {adapters: 'name', cold_starts: 'number', engines: 'url', decisions: 'number'};

// Tells `update(head, tables, changed)` of each event: tables are Maps of rows by key, `changed` the
// names of those that have; and `status(word, text)`: 'live', 'lost', 'key'.
export class Feed {
  constructor(update, status) {
    this.update = update;
    this.status = status;
    this.tables = {};
    this.abort = null;
    this.again = null;
    document.addEventListener('visibilitychange', () => this.seen());
  }

  seen() {
    clearTimeout(this.hiding);
    if (!document.hidden) {
      if (this.abort === null) this.start();
    } else {
      this.hiding = setTimeout(() => this.stop(), kHiddenMs);
    }
  }

  stop() {
    clearTimeout(this.again);
    this.abort?.abort();
    this.abort = null;
  }

  async start() {
    this.stop();
    const abort = new AbortController();
    this.abort = abort;
    let why = 'the server has closed the stream';
    try {
      const response = await call('/v1/dashboard/events', {signal: abort.signal});
      if (response.status === 401) {
        this.stop();
        this.status('key', apiKey() === '' ? '' : 'The server does not take this key.');
        return;
      }
      if (!response.ok) throw new Error(await failureOf(response));
      for await (const event of eventsOf(response)) this.take(JSON.parse(event));
    } catch (failure) {
      if (abort.signal.aborted) return;
      why = failure instanceof TypeError ? 'the server is not there' : failure.message;
    }
    if (this.abort !== abort) return;
    this.status('lost', `${why}; trying again`);
    this.again = setTimeout(() => this.start(), 2000);
  }

  take(event) {
    const changed = new Set();
    for (const [name, news] of Object.entries(event.tables)) {
      let rows = this.tables[name];
      if (rows === undefined || news.whole) {
        rows = this.tables[name] = new Map();
        changed.add(name);
      }
      const key = kKeys[name];
      for (const row of news.rows) rows.set(row[key], row);
      for (const gone of news.removed) rows.delete(gone);
      if (news.rows.length + news.removed.length > 0) changed.add(name);
    }
    this.status('live', 'live');
    this.update(event, this.tables, changed);
  }
}
