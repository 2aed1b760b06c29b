#!/usr/bin/env python3
"""Makes the small tokenizers of this folder and what Hugging Face `tokenizers` does with them.

    python3 -m venv venv && venv/bin/pip install tokenizers && venv/bin/python make.py

Each NAME.json is a tokenizer.json in the style of a published family, trained on the texts below.
NAME.golden.json holds, for every text, the ids with and without special tokens and two decodes, and
decodes of random id sequences (unfinished characters, runs of byte tokens). Made with tokenizers 0.23.

Left out on purpose: a normalized added token whose own text the normalizer changes. 0.23 decodes it to
the changed text and no longer knows it as special, which would show special tokens to users.
"""
import copy
import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent.parent

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n\n", "\r\n", "\t", " \n ", "\n  \n", " \t \r\n  x", "a", " a",
    "a ", "  a  b   c ", "Hello, world!", "hello world", "The quick brown fox jumps over the lazy dog.",
    "don't can't I'll we've it's I'm you'd they're", "DON'T I'LL IT'S", "'s 't 're '", "it\u2019s",
    "1", "12", "123", "1234", "12345678901234567890", "3.14159", "1,000,000", "0xDEADBEEF", "1e-10",
    "a1b2c3", "x = y + 1;", "if (a && b) { return *p->q[3]; }", "    def f(x):\n        return x\n",
    "\tif x:\n\t\tpass\n", "#include <stdio.h>", "https://example.com/a/b?c=d&e=%20f#g",
    "caf\u00e9", "cafe\u0301", "na\u00efve \u00fcber Stra\u00dfe", "\u00c5ngstr\u00f6m \u212b \u2126",
    "e\u0301e\u0301\u0301", "\u0301", " \u0301a", "\u1e9b\u0323", "\ufb01 \ufb02 \u2460 \u00b2",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f", "\u304c\u304b\u3099",
    "\uc548\ub155", "\u1100\u1161\u11a8", "\u041f\u0440\u0438\u0432\u0435\u0442",
    "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd", "a\U0001f680b", "zero\u200bwidth\ufeffbom",
    "a\u00a0b\u2003c\u3000d", "\u0000", "a\u0000b", "\u0001\u001b[31m\u007f", "x\u2028y\u2029z\u0085w",
    "\u0130stanbul \u017f \u212a \u0131", "\u00bd \u2167 \u0663\u0664 \uff11\uff12", "\u180e\u1680x",
    "<s>", "</s>", "<s>hello</s>", "a<s>b", " <s> ", "<unk>", "text </s> more", "<s><s>", "<|end|>",
    "<mask>", "a <mask> b", "a  <mask>  b", "x<mask>", "<single>", "a<single>b", "a <single> b",
    "_<single>.", "<single>\u0301", "<Norm>", "a <Norm>b", "<extra><extra_1>", "<extra_12>",
    "\u2581", "a\u2581b", "\u2581\u2581 x", " \u2581", "<0x41>", "<0x0A><0xE4>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the" * 60, " " * 100, "\n" * 80 + "x", "=" * 70, "ab " * 50,
    "!@#$%^&*()_+-=[]{}|;':\",./<>?`~", "...\n\n---\n///\n", "CamelCaseWordsAndABCs's",
    "a\u0300\u0301\u0302\u0303", "\ud7ff\ue000\ufffd", "\U0010ffff", "\u0e33 \u0f77",
    "trailing   \nnext", "mixed \u4e2d\u6587 and English123\u6587\u5b57",
]


def corpus():
    """Project prose: enough for about a thousand merges."""
    text = (ROOT / "tests/data/tokenizers/corpus.txt").read_text()
    return text.split("\n\n")


def byte_level(normalizer, pre, name, specials, post=None, vocab_size=800, **model):
    tok = Tokenizer(models.BPE(**model))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, special_tokens=specials,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(corpus(), trainer)
    if post:
        tok.post_processor = post(tok)
    return name, tok


def template(bos, eos=None):
    def make(tok):
        single = f"{bos} $A" + (f" {eos}" if eos else "")
        return processors.TemplateProcessing(
            single=single, pair=f"{bos} $A {bos} $B",
            special_tokens=[(t, tok.token_to_id(t)) for t in (bos, eos) if t])
    return make


def sentence_piece(name, normalizer, pre, decoder, bytes_first=True, **model):
    """Trained without byte tokens, which are then put in as Llama's converter does."""
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"])
    tok.train_from_iterator(corpus(), trainer)
    spec = json.loads(tok.to_str())
    old = sorted(spec["model"]["vocab"], key=spec["model"]["vocab"].get)
    byte_tokens = [f"<0x{b:02X}>" for b in range(256)] if bytes_first else []
    vocab = {t: i for i, t in enumerate(old[:3] + byte_tokens + old[3:])}
    merges = [tuple(m) for m in spec["model"]["merges"]]
    # Spaces in a row are tokens in the published files.
    for n in (2, 4, 8):
        vocab["\u2581" * n] = len(vocab)
        merges.append(("\u2581" * (n // 2), "\u2581" * (n // 2)))
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", **model))
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    if normalizer:
        tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    tok.decoder = decoder
    tok.post_processor = template("<s>")(tok)
    return name, tok


def llama2_decoder():
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                              decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def make_all():
    split = lambda pattern: pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield byte_level(None, pre_tokenizers.ByteLevel(add_prefix_space=False), "gpt2", ["<|end|>"],
                     post=lambda tok: processors.ByteLevel(trim_offsets=False))
    yield byte_level(None, pre_tokenizers.ByteLevel(add_prefix_space=True), "gpt2_prefix",
                     ["<s>", "</s>"], post=template("<s>", "</s>"))
    name, tok = byte_level(None, split(LLAMA3), "llama3", ["<s>", "</s>"], ignore_merges=True)
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template("<s>")(tok)])
    yield name, tok
    name, tok = byte_level(normalizers.NFC(), split(QWEN2), "qwen2", ["<|end|>"])
    tok.add_tokens([AddedToken("<extra>", normalized=False), AddedToken("<extra_1>", normalized=False)])
    yield name, tok
    yield byte_level(normalizers.NFKC(), split(CASED), "cased", ["<s>"], post=template("<s>"))
    digits = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[\r\n]"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{L}+"), "isolated"),
        pre_tokenizers.Split(Regex("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    yield byte_level(None, digits, "digits", ["<s>", "</s>"], post=template("<s>"))

    name, tok = byte_level(normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(),
                                                 normalizers.Strip()]),
                           pre_tokenizers.ByteLevel(add_prefix_space=False), "added", ["<s>", "</s>"])
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    tok.add_tokens([AddedToken("<single>", single_word=True), AddedToken("<norm>", normalized=True),
                    AddedToken("<extra_1>", normalized=False), AddedToken("<extra", normalized=False)])
    yield name, tok

    prepend = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    yield sentence_piece("llama2", prepend, None, llama2_decoder(), fuse_unk=True, byte_fallback=True)
    yield sentence_piece("mistral", None,
                         pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False),
                         llama2_decoder(), fuse_unk=True, byte_fallback=True)
    yield sentence_piece("metaspace_always", None,
                         pre_tokenizers.Metaspace("\u2581", prepend_scheme="always", split=True),
                         decoders.Metaspace("\u2581", prepend_scheme="always", split=True),
                         bytes_first=False)
    yield sentence_piece("metaspace_never", normalizers.NFKD(),
                         pre_tokenizers.Metaspace("\u2581", prepend_scheme="never", split=True),
                         decoders.Sequence([decoders.ByteFallback(),
                                            decoders.Metaspace("\u2581", prepend_scheme="never")]),
                         byte_fallback=True)
    yield sentence_piece("gemma", normalizers.Replace(" ", "\u2581"),
                         pre_tokenizers.Split(" ", "merged_with_previous"),
                         decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                            decoders.Fuse()]),
                         fuse_unk=True, byte_fallback=True)


def golden(tok, rng):
    cases = []
    for text in TEXTS:
        ids = tok.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids, "special": tok.encode(text).ids,
                      "decode": tok.decode(ids, skip_special_tokens=False),
                      "skip": tok.decode(ids, skip_special_tokens=True)})
    streams = []
    byte_ids = sorted(i for t, i in tok.get_vocab().items() if t.startswith("<0x") or len(t) == 1)
    for _ in range(40):
        n = rng.randint(1, 12)
        source = byte_ids if byte_ids and rng.random() < 0.7 else range(tok.get_vocab_size())
        ids = [rng.choice(source) for _ in range(n)]
        streams.append({"ids": ids, "decode": tok.decode(ids, skip_special_tokens=False)})
    return {"cases": cases, "streams": streams}


def main():
    rng = random.Random(20261120)
    names = []
    for name, tok in make_all():
        spec = json.loads(tok.to_str())
        if name in ("gpt2", "llama2"):  # the older spelling of merges
            spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
        text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
        tok = Tokenizer.from_str(text)
        (HERE / f"{name}.json").write_text(text)
        (HERE / f"{name}.golden.json").write_text(json.dumps(golden(tok, rng), separators=(",", ":")))
        names.append(name)
    print(" ".join(names))


if __name__ == "__main__":
    main()
