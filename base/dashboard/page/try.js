// One prompt, streamed from two models side by side.
import {byId, element, seconds, setText} from './format.js';
import {call, eventsOf, failureOf} from './feed.js';

class Answer {
  constructor(side) {
    this.text = byId(`try-${side}-text`);
    this.note = byId(`try-${side}-note`);
    this.model = byId(`try-${side}`);
  }

  async run(prompt, options, signal) {
    const model = this.model.value.trim();
    this.text.textContent = '';
    setText(this.note, model === '' ? 'none' : `${model}: waiting`);
    if (model === '') return;
    const begin = performance.now();
    let first = null;
    let end = '';
    try {
      const response = await call('/v1/completions', {
        method: 'POST', signal,
        body: JSON.stringify({model, prompt, ...options, stream: true, stream_options: {include_usage: true}}),
      });
      if (!response.ok) throw new Error(await failureOf(response));
      for await (const event of eventsOf(response)) {
        if (event === '[DONE]') break;
        const news = JSON.parse(event);
        if (news.error !== undefined) throw new Error(news.error.message);
        const text = news.choices?.[0]?.text ?? '';
        if (text !== '') {
          first ??= performance.now() - begin;
          this.text.append(text);
        }
        if (news.usage) end = this.describe(news);
        setText(this.note, `${model}: first token after ${seconds((first ?? 0) / 1000)}${end}`);
      }
    } catch (failure) {
      setText(this.note, `${model}: ${signal.aborted ? 'stopped' : failure.message}`);
    }
  }

  describe(news) {
    const took = news.tandem ?? news.usage.tandem ?? {};
    const parts = [`${news.usage.completion_tokens} tokens`];
    if (took.adapter_tier) parts.push(`adapter was found in: ${took.adapter_tier}`);
    if (took.cpu_layers > 0) parts.push(`${took.cpu_layers} layers by CPU workers`);
    return ` · ${parts.join(' · ')}`;
  }
}

export class Try {
  constructor() {
    this.answers = [new Answer('a'), new Answer('b')];
    this.names = [];
    byId('try-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.run();
    });
    byId('try-stop').addEventListener('click', () => this.abort?.abort());
    for (const side of ['try-a', 'try-b']) byId(side).addEventListener('focus', () => this.offer());
  }

  setModels(base, adapters) {
    this.names = [base, ...adapters];
    const left = byId('try-a');
    if (left.value === '' && !this.named) left.value = base;
    this.named = true;
  }

  // Thousands of options are made when somebody asks for them.
  offer() {
    byId('models').replaceChildren(...this.names.map((name) => element('option', {value: name})));
  }

  choose(name) {
    const left = byId('try-a');
    const right = byId('try-b');
    (right.value === '' && left.value !== name ? right : left).value = name;
    byId('try-prompt').focus();
  }

  async run() {
    this.abort?.abort();
    const abort = this.abort = new AbortController();
    byId('try-stop').disabled = false;
    const options = {max_tokens: Number(byId('try-tokens').value), temperature: Number(byId('try-temperature').value)};
    const prompt = byId('try-prompt').value;
    await Promise.all(this.answers.map((answer) => answer.run(prompt, options, abort.signal)));
    if (this.abort === abort) byId('try-stop').disabled = true;
  }
}
