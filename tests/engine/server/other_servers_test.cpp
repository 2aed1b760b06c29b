// The request fields of other servers and this server's treatment of each: a client that moves here
// gets what it asks for, or an error that says what to use instead.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/server/messages/request/request_fields.h"
#include "engine/server/messages/request/unsupported_fields.h"
#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using OtherServersTest = ServerTest;

constexpr const char* kCompletionsPath = "/v1/completions";
constexpr const char* kChatPath = "/v1/chat/completions";

using Names = std::vector<std::string>;

struct OtherServer {
  const char* name;
  Names taken;
  Names refused;  // except for values that ask for nothing
  Names ignored;  // without effect on answers
};

// Fields that vLLM, SGLang, TGI and llama.cpp all accept, since most are in OpenAI's API.
const Names kTakenEverywhere = {
    "model", "prompt", "messages",         "max_tokens",        "n",          "temperature",
    "top_p", "top_k",  "presence_penalty", "frequency_penalty", "logit_bias", "logprobs",
    "seed",  "stop",   "stream",           "stream_options",    "tools",      "response_format"};

// Sources: vLLM 0.11's ChatCompletionRequest and CompletionRequest; SGLang's protocol.py and its
// native sampling parameters; TGI 3 (and LoRAX); llama.cpp's and Ollama's API pages; all of
// November 2026.
const OtherServer kServers[] = {
    {"vLLM",
     {"max_completion_tokens",
      "min_p",
      "repetition_penalty",
      "top_logprobs",
      "stop_token_ids",
      "tool_choice",
      "parallel_tool_calls",
      "user",
      "min_tokens",
      "ignore_eos",
      "include_stop_str_in_output",
      "skip_special_tokens",
      "truncate_prompt_tokens",
      "allowed_token_ids",
      "bad_words",
      "echo",
      "documents",
      "chat_template",
      "chat_template_kwargs",
      "add_generation_prompt",
      "continue_final_message",
      "structured_outputs",
      "guided_json",
      "guided_regex",
      "guided_choice",
      "guided_grammar",
      "priority"},
     {"best_of",
      "suffix",
      "use_beam_search",
      "length_penalty",
      "prompt_logprobs",
      "reasoning_effort",
      "include_reasoning",
      "spaces_between_special_tokens",
      "add_special_tokens",
      "mm_processor_kwargs",
      "structural_tag",
      "guided_decoding_backend",
      "guided_whitespace_pattern",
      "logits_processors",
      "return_tokens_as_token_ids",
      "return_token_ids",
      "cache_salt",
      "kv_transfer_params",
      "vllm_xargs",
      "prompt_embeds",
      "truncation_side",
      "thinking_token_budget",
      "repetition_detection",
      "early_stopping",
      "lora_request"},
     {"request_id", "media_io_kwargs"}},
    {"SGLang",
     {"max_completion_tokens", "min_p", "min_tokens", "repetition_penalty", "top_logprobs",
      "stop_token_ids", "tool_choice", "parallel_tool_calls", "user", "ignore_eos",
      "skip_special_tokens", "echo", "continue_final_message", "chat_template_kwargs", "priority"},
     {"best_of",
      "suffix",
      "json_schema",
      "regex",
      "ebnf",
      "structural_tag",
      "stop_regex",
      "no_stop_trim",
      "lora_path",
      "lora_id",
      "session_params",
      "custom_params",
      "custom_logit_processor",
      "reasoning_effort",
      "reasoning",
      "task",
      "input_ids",
      "input_embeds",
      "return_hidden_states",
      "return_routed_experts",
      "routed_experts_start_len",
      "return_cached_tokens_details",
      "return_prompt_token_ids",
      "return_token_ids",
      "return_meta_info",
      "extra_key",
      "cache_salt",
      "sampling_params",
      "max_new_tokens",
      "min_new_tokens",
      "sampling_seed",
      "image_data",
      "audio_data",
      "video_data",
      "return_logprob",
      "logprob_start_len",
      "top_logprobs_num",
      "token_ids_logprob",
      "return_text_in_logprobs",
      "spaces_between_special_tokens"},
     {"rid", "session_id", "custom_labels", "separate_reasoning", "stream_reasoning",
      "bootstrap_host", "bootstrap_port", "bootstrap_room", "data_parallel_rank", "routed_dp_rank",
      "disagg_prefill_dp_rank", "ngram_corpus_id", "images_config", "max_dynamic_patch",
      "min_dynamic_patch", "use_audio_in_video", "log_metrics"}},
    {"TGI and LoRAX",
     {"repetition_penalty", "top_logprobs", "tool_choice"},
     {"inputs",
      "parameters",
      "best_of",
      "suffix",
      "max_new_tokens",
      "do_sample",
      "typical_p",
      "watermark",
      "truncate",
      "return_full_text",
      "details",
      "decoder_input_details",
      "top_n_tokens",
      "grammar",
      "guideline",
      "tool_prompt",
      "stop_sequences",
      "adapter_id",
      "adapter_parameters",
      "merged_adapters",
      "apply_chat_template",
      "return_k_alternatives"},
     {"adapter_source", "api_token"}},
    {"llama.cpp",
     {"min_p", "tool_choice", "parallel_tool_calls", "ignore_eos", "chat_template_kwargs",
      "add_generation_prompt"},
     {"n_predict",
      "n_indent",
      "n_cmpl",
      "dynatemp_range",
      "typical_p",
      "repeat_penalty",
      "repeat_last_n",
      "dry_multiplier",
      "xtc_probability",
      "mirostat",
      "top_n_sigma",
      "grammar",
      "json_schema",
      "grammar_lazy",
      "grammar_triggers",
      "n_probs",
      "min_keep",
      "t_max_predict_ms",
      "return_tokens",
      "samplers",
      "post_sampling_probs",
      "response_fields",
      "lora",
      "input_prefix",
      "input_suffix",
      "input_extra",
      "tfs_z",
      "penalize_nl",
      "system_prompt",
      "image_data",
      "adaptive_target",
      "reasoning_format",
      "parse_tool_calls"},
     {"n_keep",
      "n_discard",
      "n_cache_reuse",
      "dynatemp_exponent",
      "dry_base",
      "dry_allowed_length",
      "dry_penalty_last_n",
      "dry_sequence_breakers",
      "xtc_threshold",
      "mirostat_tau",
      "mirostat_eta",
      "id_slot",
      "slot_id",
      "cache_prompt",
      "timings_per_token",
      "return_progress",
      "sse_ping_interval",
      "adaptive_decay",
      "verbose",
      "reasoning_in_content"}},
    {"Ollama",
     {"model", "prompt", "messages", "tools", "stream", "logprobs", "top_logprobs", "seed", "top_k",
      "top_p", "min_p", "temperature", "presence_penalty", "frequency_penalty", "stop"},
     {"suffix", "images", "think", "format", "options", "system", "template", "raw", "context",
      "truncate", "num_predict", "typical_p", "repeat_last_n", "repeat_penalty", "tfs_z",
      "mirostat", "penalize_newline"},
     {"keep_alive", "shift", "num_keep", "num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap",
      "num_thread", "mirostat_tau", "mirostat_eta"}},
    {"Mistral, KoboldCpp, text-generation-webui, transformers, LMDeploy, mlx-lm, Anthropic",
     {"max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "tools"},
     {"random_seed",
      "safe_prompt",
      "prompt_mode",
      "max_context_length",
      "max_length",
      "rep_pen",
      "rep_pen_range",
      "rep_pen_slope",
      "sampler_order",
      "sampler_seed",
      "stop_sequence",
      "tfs",
      "top_a",
      "typical",
      "use_default_badwordsids",
      "smoothing_factor",
      "memory",
      "trim_stop",
      "bypass_eos",
      "banned_tokens",
      "banned_strings",
      "nsigma",
      "guidance_scale",
      "negative_prompt",
      "preset",
      "dynamic_temperature",
      "dynatemp_low",
      "dynatemp_high",
      "temperature_last",
      "epsilon_cutoff",
      "eta_cutoff",
      "encoder_repetition_penalty",
      "no_repeat_ngram_size",
      "repetition_penalty_range",
      "penalty_alpha",
      "mirostat_mode",
      "max_tokens_second",
      "auto_max_new_tokens",
      "ban_eos_token",
      "add_bos_token",
      "truncation_length",
      "sampler_priority",
      "custom_token_bans",
      "grammar_string",
      "typ_p",
      "character",
      "instruction_template",
      "instruction_template_str",
      "chat_template_str",
      "continue_",
      "min_length",
      "max_time",
      "stop_strings",
      "num_beams",
      "num_beam_groups",
      "diversity_penalty",
      "bad_words_ids",
      "force_words_ids",
      "renormalize_logits",
      "constraints",
      "forced_bos_token_id",
      "forced_eos_token_id",
      "exponential_decay_length_penalty",
      "suppress_tokens",
      "begin_suppress_tokens",
      "sequence_bias",
      "token_healing",
      "watermarking_config",
      "num_return_sequences",
      "eos_token_id",
      "stop_words",
      "role_mapping",
      "repetition_context_size",
      "max_tokens_to_sample",
      "extra_body",
      "adapter",
      "lora_name",
      "lora_adapter"},
     {"genkey", "quiet", "smoothing_curve", "use_cache", "prompt_lookup_num_tokens", "draft_model",
      "num_draft_tokens", "ttl", "metadata", "store", "prompt_cache_key"}},
};

json request(bool chat) {
  return chat ? json{{"messages", {{{"role", "user"}, {"content", "x"}}}}} : json{{"prompt", "p"}};
}

TEST_F(OtherServersTest, FieldsAreTakenRefusedByNameOrOfNoConsequence) {
  start();
  const auto expect_taken = [](const Names& names) {
    for (const std::string& name : names) {
      EXPECT_TRUE(std::ranges::any_of(request_fields(), [&](const auto& field) {
        return name == field.name;
      })) << name;
    }
  };
  expect_taken(kTakenEverywhere);
  for (const OtherServer& other : kServers) {
    SCOPED_TRACE(other.name);
    expect_taken(other.taken);
    for (const std::string& name : other.ignored) {
      EXPECT_TRUE(std::ranges::any_of(ignored_fields(), [&](const char* field) {
        return name == field;
      })) << name;
    }
    for (const std::string& name : other.refused) {
      for (const bool chat : {false, true}) {
        json body = request(chat);
        body[name] = "x";
        const auto answer = post(port, chat ? kChatPath : kCompletionsPath, body);
        EXPECT_EQ(answer.status, 400) << name << answer.body;
        EXPECT_EQ(answer.error("param"), name);
        EXPECT_EQ(answer.error("code"), "not_supported");
      }
    }
  }
}

TEST_F(OtherServersTest, FieldsThatAskForNothingAreTaken) {
  start();
  for (const bool chat : {false, true}) {
    for (const json& nothing : {json(nullptr), json(""), json::array(), json::object()}) {
      json body = request(chat);
      for (const UnsupportedField& field : unsupported_fields()) body[field.name] = nothing;
      for (const char* name : {"lora_path", "x_trace"}) body[name] = nothing;
      const auto answer = post(port, chat ? kChatPath : kCompletionsPath, body);
      EXPECT_EQ(answer.status, 200) << answer.body;
    }
    json body = request(chat);
    for (const UnsupportedField& field : unsupported_fields()) {
      const json accepted = json::parse(field.accepted);
      if (!accepted.empty() && field.where == (kCompletions | kChat)) {
        body[field.name] = accepted[0];
      }
    }
    for (const char* name : ignored_fields()) body[name] = json{{"a", "b"}};
    const auto answer = post(port, chat ? kChatPath : kCompletionsPath, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
}

TEST_F(OtherServersTest, NoNameForAnAdapterIsAnsweredByTheBase) {
  start();
  const auto ask = [&](const std::string& name, const json& value) {
    json body = request(false);
    body[name] = value;
    return post(port, kCompletionsPath, body);
  };
  for (const char* name : {"lora_path", "adapter_id", "lora", "LoRA", "lora_weights", "my-lora",
                           "useLora", "peftAdapter", "active_adapter", "loraRequest"}) {
    for (const json& value : {json("poet"), json{{"name", "poet"}}, json{{{"id", 0}}}}) {
      const auto answer = ask(name, value);
      EXPECT_EQ(answer.status, 400) << name;
      EXPECT_EQ(answer.error("param"), name);
      EXPECT_NE(answer.error().find("'model' or 'adapters' names the adapter"), std::string::npos);
    }
    EXPECT_EQ(ask(name, false).status, 200) << name;
  }
  for (const char* name : {"exploration", "floral", "readapter", "x_trace"}) {
    EXPECT_EQ(ask(name, "poet").status, 200) << name;
  }
  EXPECT_EQ(ask(std::string(100'000, 'a'), 1).status, 200);
}

TEST_F(OtherServersTest, NamesTheFieldToGiveInstead) {
  start();
  const struct {
    const char* field;
    json value;
    const char* instead;
  } cases[] = {
      {"max_new_tokens", 3, "give 'max_tokens'"},
      {"stop_sequences", {"a"}, "give 'stop'"},
      {"random_seed", 7, "give 'seed'"},
      {"do_sample", false, "'temperature' of 0"},
      {"truncate", 5, "give 'truncate_prompt_tokens'"},
      {"options", {{"temperature", 0}}, "give its members in the request itself"},
      {"extra_body", {{"top_k", 1}}, "give its members in the request itself"},
      {"maxTokens", 3, "give 'max_tokens'"},
      {"topK", 3, "give 'top_k'"},
      {"stop-sequences", {"a"}, "give 'stop'"},
      {"maxNewTokens", 3, "give 'max_tokens'"},
  };
  for (const auto& [field, value, instead] : cases) {
    json body = request(true);
    body[field] = value;
    const auto answer = post(port, kChatPath, body);
    EXPECT_EQ(answer.status, 400) << field;
    EXPECT_EQ(answer.error("param"), field);
    EXPECT_NE(answer.error().find(instead), std::string::npos) << answer.body;
  }
}

}  // namespace
}  // namespace tandem
