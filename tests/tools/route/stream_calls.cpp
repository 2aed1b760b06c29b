#include "tests/tools/route/stream_calls.h"

#include <ostream>

namespace tandem {

using nlohmann::json;

std::vector<std::string> engine_words() {
  return {"serve",     "--model", "data/demo-llama", "--adapters", "data/demo-llama/adapters",
          "--port",    "0",       "--no-pin",        "--device",   "host",
          "--pool-gb", "0.25",    "--dtype",         "f32",        "--adapter-mode",
          "cached"};
}

std::vector<StreamCall> stream_calls(int max_tokens) {
  const json common = {{"stream", true}, {"max_tokens", max_tokens}, {"ignore_eos", true}};
  const auto with = [&](const char* path, json more) {
    json body = common;
    body.update(more);
    return StreamCall{path, body};
  };
  const char* const completions = "/v1/completions";
  return {
      with(completions, {{"prompt", "import os"}, {"temperature", 0}}),
      with(completions, {{"prompt", "def main"}, {"model", "python"}, {"seed", 5}, {"n", 3}}),
      with(completions,
           {{"prompt", "class A"}, {"model", "docstring"}, {"temperature", 0}, {"logprobs", 2}}),
      with(completions, {{"prompt", {"one", "two"}}, {"seed", 9}, {"presence_penalty", 1.5}}),
      with(completions,
           {{"prompt", "x = "}, {"seed", 3}, {"stop", {"zqzq"}}, {"frequency_penalty", 0.5}}),
      with("/v1/chat/completions",
           {{"messages", {{{"role", "user"}, {"content", "Say something"}}}}, {"temperature", 0}}),
  };
}

void Told::take(const std::string& event) {
  if (event == "[DONE]") {
    done = true;
    return;
  }
  const json chunk = json::parse(event, nullptr, false);
  if (!chunk.is_object() || chunk.contains("error")) {
    wrong = event;
    return;
  }
  for (const json& choice : chunk["choices"]) {
    const int index = choice["index"].get<int>();
    if (choice.contains("delta")) {
      texts[index] += choice["delta"].value("content", "");
    } else {
      texts[index] += choice["text"].get<std::string>();
    }
    if (choice["finish_reason"].is_string()) finishes[index] += choice["finish_reason"];
    if (choice.contains("logprobs") && choice["logprobs"].is_object()) {
      for (const json& token : choice["logprobs"].value("tokens", json::array())) {
        logprob_tokens[index] += token.get<std::string>() + "|";
      }
    }
  }
}

std::ostream& operator<<(std::ostream& out, const Told& told) {
  for (const auto& [index, text] : told.texts) out << '\n' << index << ": " << text;
  for (const auto& [index, finish] : told.finishes) out << '\n' << index << " ends: " << finish;
  for (const auto& [index, tokens] : told.logprob_tokens) out << '\n' << index << ": " << tokens;
  return out << (told.done ? "\ndone " : "\nnot done ") << told.wrong;
}

}  // namespace tandem
