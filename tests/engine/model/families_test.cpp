#include "engine/model/families/registry.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/engine/model/config_json.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using test::config_of;
using test::Json;
using test::llama;
using test::message;
using test::message_of;
using test::message_with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json family(const std::string& type, const std::string& name) {
  Json json = llama();
  json["model_type"] = type;
  json["architectures"] = {name};
  return json;
}

TEST(ModelSpec, ReadsBothSpellingsOfEveryArchitecture) {
  for (const std::string name :
       {"tiny-llama", "tiny-llama-f32", "tiny-mistral", "tiny-qwen2", "tiny-qwen3", "demo-llama"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path dir = "data/" + name;
    const Result<ModelSpec> v5 = load_model_spec(dir);
    ASSERT_TRUE(v5) << v5.status().message();
    std::ostringstream text;
    text << std::ifstream(dir / "config.v4.json").rdbuf();
    const Result<ModelSpec> v4 = parse_model_spec(text.str());
    ASSERT_TRUE(v4) << v4.status().message();
    for (const ModelSpec& config : {*v5, *v4}) {
      const bool demo = name == "demo-llama";
      EXPECT_EQ(config.hidden_size, demo ? 256 : 64);
      EXPECT_EQ(config.num_layers(), demo ? 8 : 2);
      EXPECT_EQ(config.attention().heads, demo ? 8 : 4);
      EXPECT_EQ(config.attention().kv_heads, demo ? 4 : 2);
      EXPECT_EQ(config.attention().head_dim, demo || name == "tiny-qwen3" ? 32 : 16);
      EXPECT_EQ(config.mlp().size, demo ? 704 : 128);
      EXPECT_EQ(config.vocab_size, 4096);
      EXPECT_EQ(config.max_position_embeddings, demo ? 1024 : 512);
      EXPECT_EQ(config.rotary[0].theta, name.find("llama") != std::string::npos ? 1e4 : 1e6);
      EXPECT_FALSE(config.rotary[0].llama3);
      EXPECT_EQ(config.rms_norm_eps, name.find("qwen") != std::string::npos ? 1e-6 : 1e-5);
      EXPECT_EQ(config.tie_word_embeddings, name != "tiny-mistral");
      EXPECT_EQ(config.attention().qkv_bias, name == "tiny-qwen2");
      EXPECT_FALSE(config.attention().o_bias);
      EXPECT_EQ(config.attention().qk_norm, name == "tiny-qwen3" ? QkNorm::head : QkNorm::none);
      EXPECT_EQ(config.dtype, name == "tiny-llama-f32" ? DType::f32 : DType::bf16);
      EXPECT_THAT(config.eos_token_ids, ElementsAre(1));
      EXPECT_EQ(config.bos_token_id, 0);
      EXPECT_EQ(config.family, demo ? "llama" : name.substr(5, name.find('-', 5) - 5));
    }
  }
}

TEST(ModelSpec, NamesTheMissingField) {
  for (const char* field :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "vocab_size", "max_position_embeddings", "rms_norm_eps"}) {
    Json json = llama();
    json.erase(field);
    EXPECT_EQ(message(json), fmt::format("'{}' is missing", field));
    json[field] = nullptr;
    EXPECT_EQ(message(json), fmt::format("'{}' is missing", field));
  }
}

TEST(ModelSpec, RefusesAbsurdFieldsByName) {
  for (const char* field :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "intermediate_size", "vocab_size", "max_position_embeddings"}) {
    for (const Json& value : {Json(0), Json(-4), Json(1e30), Json(1.5), Json("many"), Json(true),
                              Json(UINT64_MAX), Json(INT64_MIN), Json::array(), Json::object()}) {
      EXPECT_THAT(message_with(field, value), HasSubstr(field)) << value;
    }
  }
  for (const Json& value : {Json(0), Json(-1e-5), Json(1), Json("small")}) {
    EXPECT_THAT(message_with("rms_norm_eps", value), HasSubstr("rms_norm_eps")) << value;
  }
  EXPECT_THAT(message_with("num_key_value_heads", 4), HasSubstr("no multiple"));
  EXPECT_THAT(message_with("hidden_size", 97), HasSubstr("no multiple"));
  EXPECT_THAT(message_with("head_dim", 15), HasSubstr("even"));
  EXPECT_THAT(message_with("rope_theta", -1), HasSubstr("rope_theta"));
  EXPECT_THAT(message_with("torch_dtype", "float8"), HasSubstr("float8"));
  EXPECT_THAT(message_with("eos_token_id", -1), HasSubstr("eos_token_id"));
  EXPECT_THAT(message_with("eos_token_id", Json{1, 1000}), HasSubstr("eos_token_id"));
  EXPECT_THAT(message_with("bos_token_id", "a"), HasSubstr("bos_token_id"));
  EXPECT_THAT(message_with("tie_word_embeddings", 1), HasSubstr("tie_word_embeddings"));
}

TEST(ModelSpec, RefusesWhatItWouldComputeWrongly) {
  EXPECT_THAT(message_with("hidden_act", "gelu"), HasSubstr("gelu"));
  EXPECT_THAT(message_with("quantization_config", {{"quant_method", "gptq"}}), HasSubstr("gptq"));
  EXPECT_THAT(message_with("quantization", {{"bits", 4}}), HasSubstr("MLX"));
  EXPECT_THAT(message_with("num_local_experts", 8), HasSubstr("experts"));
  EXPECT_THAT(message(family("mixtral", "MixtralForCausalLM")), HasSubstr("MixtralForCausalLM"));
  EXPECT_THAT(message(family("qwen3", "Qwen3MoeForCausalLM")), HasSubstr("Qwen3MoeForCausalLM"));
  EXPECT_THAT(message(family("llama", "LlamaForTokenClassification")),
              HasSubstr("LlamaForTokenClassification"));
  EXPECT_THAT(message_with("is_causal", false), HasSubstr("is_causal"));
  EXPECT_THAT(message(family("llama", "MistralForCausalLM")), HasSubstr("not supported"));
}

TEST(ModelSpec, KnowsTextModelsWithoutAHeadAndWithOneThatScores) {
  const auto head = parse_model_spec(llama().dump());
  ASSERT_TRUE(head.ok());
  EXPECT_TRUE(head->writes_text);
  EXPECT_THAT(head->labels, ElementsAre());
  const auto none = parse_model_spec(family("llama", "LlamaModel").dump());
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_FALSE(none->writes_text);
  EXPECT_FALSE(none->has_own_head());
  EXPECT_THAT(none->labels, ElementsAre());
  Json json = family("llama", "LlamaForSequenceClassification");
  EXPECT_THAT(parse_model_spec(json.dump())->labels, ElementsAre("LABEL_0", "LABEL_1"));
  json["id2label"] = {{"1", "yes"}, {"0", "no"}, {"2", "maybe"}};
  const auto labelled = parse_model_spec(json.dump());
  ASSERT_TRUE(labelled.ok()) << labelled.status().message();
  EXPECT_FALSE(labelled->writes_text);
  EXPECT_THAT(labelled->labels, ElementsAre("no", "yes", "maybe"));
  for (const Json& bad :
       {Json::object(), Json::array({"no"}), Json{{"1", "yes"}}, Json{{"0", 1}}}) {
    EXPECT_THAT(message_of(json, "id2label", bad), HasSubstr("id2label")) << bad;
  }
}

std::vector<std::int64_t> windows(const Json& json) {
  std::vector<std::int64_t> result;
  const Result<ModelSpec> spec = parse_model_spec(json.dump());
  EXPECT_TRUE(spec) << spec.status().message();
  if (!spec) return result;
  for (const LayerSpec& layer : spec->layers) result.push_back(layer.attention.window);
  return result;
}

TEST(ModelSpec, GivesLayersTheirWindows) {
  Json mistral = family("mistral", "MistralForCausalLM");
  mistral["sliding_window"] = nullptr;
  EXPECT_THAT(windows(mistral), ElementsAre(0, 0, 0));
  mistral["sliding_window"] = 2048;  // no shorter than the context
  EXPECT_THAT(windows(mistral), ElementsAre(0, 0, 0));
  mistral["sliding_window"] = 2047;
  EXPECT_THAT(windows(mistral), ElementsAre(2047, 2047, 2047));
  EXPECT_EQ(parse_model_spec(mistral.dump())->max_position_embeddings, 2048);

  Json qwen = family("qwen2", "Qwen2ForCausalLM");
  qwen["sliding_window"] = 512;
  qwen["use_sliding_window"] = false;
  EXPECT_THAT(windows(qwen), ElementsAre(0, 0, 0));
  qwen["use_sliding_window"] = true;
  EXPECT_THAT(windows(qwen),
              ElementsAre(0, 0, 0));  // from layer 28 on, where the config says no more
  qwen["max_window_layers"] = 1;
  EXPECT_THAT(windows(qwen), ElementsAre(0, 512, 512));
  qwen["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_THAT(windows(qwen), ElementsAre(0, 512, 0));
  qwen["sliding_window"] = nullptr;
  EXPECT_THAT(message(qwen), HasSubstr("sliding_window"));
  qwen["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(message(qwen), HasSubstr("layer_types"));
  qwen["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_THAT(message(qwen), HasSubstr("linear_attention"));
}

TEST(ModelSpec, ReadsBothSpellingsOfEveryFamilyAlike) {
  for (const auto& each : std::filesystem::directory_iterator("data/families")) {
    SCOPED_TRACE(each.path());
    const auto spec_of = [&](const char* file) {
      std::ostringstream text;
      text << std::ifstream(each.path() / file).rdbuf();
      return parse_model_spec(text.str());
    };
    const Result<ModelSpec> first = spec_of("config.json");
    ASSERT_TRUE(first) << first.status().message();
    for (const char* const file : {"config.v4.json", "config.v5.json"}) {
      if (!std::filesystem::exists(each.path() / file)) continue;
      const Result<ModelSpec> other = spec_of(file);
      ASSERT_TRUE(other) << other.status().message();
      EXPECT_EQ(first->layers, other->layers);
      EXPECT_EQ(first->rotary, other->rotary);
      EXPECT_EQ(first->max_position_embeddings, other->max_position_embeddings);
      EXPECT_EQ(first->embedding_multiplier, other->embedding_multiplier);
      EXPECT_EQ(first->logits_multiplier, other->logits_multiplier);
      EXPECT_EQ(first->logits_softcap, other->logits_softcap);
      EXPECT_EQ(first->tie_word_embeddings, other->tie_word_embeddings);
      EXPECT_EQ(first->rms_norm_eps, other->rms_norm_eps);
    }
  }
}

TEST(ModelSpec, ReadsTheScaleOfMinistral3sQueriesAndNeedsIt) {
  Json json = config_of("ministral3");
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  EXPECT_EQ(spec.attention().query_scale, (QueryScale{0.5, 64}));
  EXPECT_EQ(spec.rotary[0].attention_factor, 1);
  json["rope_parameters"].erase("llama_4_scaling_beta");
  EXPECT_THAT(message(json), HasSubstr("'llama_4_scaling_beta' is missing"));
  json.erase("rope_parameters");
  EXPECT_THAT(message(json), HasSubstr("'rope_parameters' is missing"));
}

TEST(ModelSpec, ReadsTheFullLayersOfGemma4AndRefusesItsOtherKinds) {
  Json json = config_of("gemma4_k");
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  EXPECT_FALSE(spec.norm_adds_one);
  EXPECT_EQ(spec.logits_softcap, 20);
  EXPECT_EQ(spec.layer(0).attention.head_dim, 16);
  EXPECT_EQ(spec.layer(0).attention.kv_heads, 2);
  EXPECT_FALSE(spec.layer(0).attention.keys_as_values);
  EXPECT_EQ(spec.layer(1).attention.head_dim, 32);
  EXPECT_FALSE(spec.has_equal_layers());
  EXPECT_EQ(spec.all_keys(), 2 * 16 + 2 * 32);
  EXPECT_EQ(spec.layer(1).attention.kv_heads, 1);
  EXPECT_TRUE(spec.layer(1).attention.keys_as_values);
  EXPECT_EQ(spec.rotary[spec.layer(1).attention.rotary].turning, 4);
  EXPECT_EQ(spec.rotary[spec.layer(0).attention.rotary].turning, 0);
  EXPECT_EQ(module_out(spec, 1, spec.modules.row("v_proj")), 0);
  const auto with = [&](const char* field, const Json& value) {
    return message_of(json, "text_config", [&] {
      Json text = json["text_config"];
      text[field] = value;
      return text;
    }());
  };
  EXPECT_EQ(spec.layer_input_size(), 0);
  EXPECT_EQ(with("num_kv_shared_layers", 1), "accepted");
  EXPECT_THAT(with("num_kv_shared_layers", 3), HasSubstr("num_kv_shared_layers"));
  EXPECT_THAT(with("enable_moe_block", true), HasSubstr("experts"));
  EXPECT_THAT(with("use_bidirectional_attention", "all"), HasSubstr("use_bidirectional_attention"));
  EXPECT_EQ(with("use_bidirectional_attention", "vision"), "accepted");
  EXPECT_THAT(with("num_global_key_value_heads", 3), HasSubstr("layer 1 has 4 heads of 32"));
  EXPECT_THAT(with("rope_parameters", nullptr), HasSubstr("'rope_parameters' says nothing"));
  EXPECT_THAT(with("layer_types", {"full_attention", "full_attention", "sliding_attention"}),
              HasSubstr("the last layer"));
}

TEST(ModelSpec, ReadsInputsByLayerAndSharedKeysOfGemma4) {
  const Json json = config_of("gemma4");
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  std::vector<std::size_t> sources;
  std::vector<std::int64_t> ffn;
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_EQ(layer.input.size, 12);
    sources.push_back(layer.attention.keys_of);
    ffn.push_back(layer.mlp.size);
  }
  constexpr std::size_t kOwn = AttentionSpec::kOwnKeys;
  EXPECT_THAT(sources, ElementsAre(kOwn, kOwn, kOwn, 1, 1, 2));
  EXPECT_THAT(ffn, ElementsAre(72, 72, 72, 144, 144, 144));
  const auto with = [&](const char* field, const Json& value) {
    Json changed = json;
    changed[field] = value;
    return parse_model_spec(changed.dump());
  };
  EXPECT_EQ(with("use_double_wide_mlp", false)->layer(5).mlp.size, 72);
  EXPECT_EQ(with("hidden_size_per_layer_input", nullptr)->layer_input_size(), 0);
  Json absent = json;
  absent.erase("hidden_size_per_layer_input");
  EXPECT_EQ(parse_model_spec(absent.dump())->layer_input_size(), 256);
  EXPECT_THAT(message_of(json, "vocab_size_per_layer_input", 256),
              HasSubstr("'vocab_size_per_layer_input' is 256, and 'vocab_size' 512"));
  EXPECT_THAT(message_of(json, "num_kv_shared_layers", 4),
              HasSubstr("layer 2 has no layer of its kind before them"));
  EXPECT_THAT(message_of(json, "num_kv_shared_layers", 6), HasSubstr("num_kv_shared_layers"));
  const auto by_layer = [&](const Json& value) {
    return message_of(json, "per_layer_config", value);
  };
  const Json heads = {{"head_dim", 32}};
  EXPECT_EQ(by_layer({{"2", heads}, {"5", heads}}), "accepted");
  EXPECT_THAT(by_layer({{"2", heads}}), HasSubstr("for each full layer alone"));
  EXPECT_THAT(by_layer({{"1", heads}, {"5", heads}}), HasSubstr("says nothing of layer 2"));
  EXPECT_THAT(by_layer({{"2", heads}, {"5", {{"head_dim", 32}, {"sliding_window", 8}}}}),
              HasSubstr("sets more than the heads"));
}

TEST(ModelSpec, ReadsCohere2AndRefusesOtherKindsOfItsLayers) {
  Json json = config_of("cohere2");
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  EXPECT_TRUE(spec.norm_centred);
  EXPECT_TRUE(spec.layer(0).parallel);
  EXPECT_EQ(spec.logits_multiplier, 0.6);
  EXPECT_EQ(spec.layer(2).attention.window, 24);
  EXPECT_EQ(spec.layer(2).attention.rotary, 0U);
  EXPECT_EQ(spec.layer(3).attention.window, 0);
  EXPECT_EQ(spec.layer(3).attention.rotary, AttentionSpec::kNoRotary);
  json.erase("logit_scale");
  EXPECT_EQ(parse_model_spec(json.dump())->logits_multiplier, 0.0625);
  for (const char* const field : {"use_parallel_block", "use_gated_activation"}) {
    EXPECT_THAT(message_of(json, field, false), HasSubstr(field));
  }
  EXPECT_THAT(message_of(json, "use_qk_norm", true), HasSubstr("use_qk_norm"));
  EXPECT_THAT(message_of(json, "position_embedding_type", "alibi"), HasSubstr("alibi"));
  EXPECT_THAT(message_of(json, "rotary_pct", 0.5), HasSubstr("rotary_pct"));
  EXPECT_THAT(message_of(json, "head_dim", 32), HasSubstr("head_dim"));
  EXPECT_THAT(message_of(json, "sliding_window", nullptr), HasSubstr("sliding_window"));
}

TEST(ModelSpec, ReadsGemma3OfAMultimodalCheckpointThatLeavesOutDefaults) {
  const Json json = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                     {"model_type", "gemma3"},
                     {"torch_dtype", "bfloat16"},
                     {"eos_token_id", {1, 106}},
                     {"text_config",
                      {{"model_type", "gemma3_text"},
                       {"hidden_size", 2560},
                       {"intermediate_size", 10240},
                       {"num_hidden_layers", 34},
                       {"sliding_window", 1024},
                       {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}}};
  const Result<ModelSpec> spec = parse_model_spec(json.dump());
  ASSERT_TRUE(spec) << spec.status().message();
  EXPECT_EQ(spec->num_layers(), 34);
  EXPECT_EQ(spec->attention().heads, 8);
  EXPECT_EQ(spec->attention().kv_heads, 4);
  EXPECT_EQ(spec->attention().head_dim, 256);
  EXPECT_EQ(spec->vocab_size, 262208);
  EXPECT_EQ(spec->max_position_embeddings, 131072);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_EQ(spec->layer(4).attention.window, 1024);
  EXPECT_EQ(spec->layer(5).attention.window, 0);
  EXPECT_EQ(spec->rotary[spec->layer(5).attention.rotary].linear_factor, 8);
  EXPECT_EQ(spec->rotary[spec->layer(5).attention.rotary].theta, 1e6);
  EXPECT_EQ(spec->rotary[spec->layer(4).attention.rotary].linear_factor, 1);
  EXPECT_EQ(spec->rotary[spec->layer(4).attention.rotary].theta, 1e4);
  EXPECT_EQ(spec->dtype, DType::bf16);
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(1, 106));
}

TEST(ModelSpec, GivesLlamaWithoutKvHeadsOnePerHead) {
  Json json = llama();
  json.erase("num_key_value_heads");
  EXPECT_EQ(parse_model_spec(json.dump())->attention().kv_heads, 6);
}

TEST(ModelSpec, HeedsAttentionBiasWhereTheArchitectureHasIt) {
  Json json = llama();
  json["attention_bias"] = true;
  const ModelSpec config = parse_model_spec(json.dump()).value();
  EXPECT_TRUE(config.attention().qkv_bias);
  EXPECT_TRUE(config.attention().o_bias);
}

TEST(ModelSpec, TakesEndTokensOfTheGenerationConfig) {
  const testing::TempDir dir;
  dir.write("config.json", llama().dump());
  EXPECT_THAT(load_model_spec(dir.path())->eos_token_ids, ElementsAre(2));
  dir.write("generation_config.json", R"({"eos_token_id": [7, 9, 7]})");
  EXPECT_THAT(load_model_spec(dir.path())->eos_token_ids, ElementsAre(7, 9));
  dir.write("generation_config.json", R"({"do_sample": true})");
  EXPECT_THAT(load_model_spec(dir.path())->eos_token_ids, ElementsAre(2));
  dir.write("generation_config.json", R"({"eos_token_id": "</s>"})");
  EXPECT_THAT(load_model_spec(dir.path()).status().message(), HasSubstr("generation_config.json"));
}

TEST(ModelSpec, NamesTheFileThatIsMissingOrBroken) {
  const testing::TempDir dir;
  const Status missing = load_model_spec(dir.path()).status();
  EXPECT_EQ(missing.code(), StatusCode::not_found);
  EXPECT_THAT(missing.message(), HasSubstr("config.json"));
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[]"), std::string("{} x"),
        std::string("\xff"), std::string("{}\0", 3), std::string(R"({"a":1,"a":2})"),
        std::string(1'000'000, '['), R"({"a":)" + std::string(500'000, '{')}) {
    dir.write("config.json", text);
    const Status status = load_model_spec(dir.path()).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_THAT(status.message(), HasSubstr("config.json"));
  }
}

}  // namespace
}  // namespace tandem
