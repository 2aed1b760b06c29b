#include "engine/loader/quantisation_scheme.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Result<std::optional<QuantisationScheme>> read(const Json& quantisation,
                                               const char* name = "quantization_config") {
  return QuantisationScheme::read(Json{{name, quantisation}}.dump());
}
std::string why(const Json& quantisation) {
  const auto scheme = read(quantisation);
  return scheme ? "read" : scheme.status().message();
}
std::optional<ModuleScheme> of(const Json& quantisation, std::string_view module) {
  const auto scheme = read(quantisation);
  EXPECT_TRUE(scheme.ok()) << scheme.status().message();
  return (*scheme)->of(module).value();
}

Json weights(int bits, const char* type, const char* strategy) {
  return {{"num_bits", bits}, {"type", type}, {"strategy", strategy}, {"symmetric", true}};
}
Json compressed(const char* format, Json weights, Json targets = {"Linear"}) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head"}},
          {"config_groups",
           {{"group_0", {{"targets", std::move(targets)}, {"weights", std::move(weights)}}}}}};
}

TEST(QuantisationScheme, IsNotThereWithoutItsField) {
  EXPECT_FALSE(QuantisationScheme::read(R"({"model_type": "llama"})").value());
  EXPECT_FALSE(QuantisationScheme::read(R"({"quantization_config": null})").value());
}

TEST(QuantisationScheme, IsFoundUnderItsOldNameAndInTheTextModel) {
  const Json config = compressed("pack-quantized", weights(8, "int", "channel"));
  EXPECT_TRUE(read(config, "compression_config").value());
  const Json nested = {{"text_config", {{"quantization_config", config}}}};
  EXPECT_TRUE(QuantisationScheme::read(nested.dump()).value());
}

TEST(QuantisationScheme, RefusesUnknownMethodsAndBitsByName) {
  EXPECT_THAT(why({{"quant_method", "hqq"}}), AllOf(HasSubstr("'hqq'"), HasSubstr("take the")));
  EXPECT_THAT(why(Json::object()), HasSubstr("method 'unknown'"));
  EXPECT_THAT(why({{"quant_method", "gptq"}, {"bits", 3}, {"group_size", 128}}),
              HasSubstr("'bits' is 3"));
  EXPECT_THAT(why({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 20}}),
              HasSubstr("'group_size' is 20"));
  EXPECT_THAT(why({{"quant_method", "gptq"}, {"bits", 4}, {"checkpoint_format", "marlin"}}),
              HasSubstr("'marlin'"));
  EXPECT_THAT(why({{"quant_method", "awq"}, {"bits", 8}, {"group_size", 128}}),
              HasSubstr("'bits' is 8"));
  EXPECT_THAT(why({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "gemv"}}),
              HasSubstr("'gemv'"));
  EXPECT_THAT(why({{"quant_method", "bitsandbytes"}}), HasSubstr("'load_in_4bit'"));
  EXPECT_THAT(why({{"quant_method", "fp8"}, {"fmt", "e5m2"}}), HasSubstr("'e5m2'"));
  EXPECT_THAT(why({{"quant_method", "fp8"}, {"weight_block_size", {128}}}),
              HasSubstr("'weight_block_size'"));
}

TEST(QuantisationScheme, RefusesWhatCompressedTensorsMayHaveBesides) {
  EXPECT_THAT(why(compressed("nvfp4-pack-quantized", weights(4, "float", "group"))),
              HasSubstr("'nvfp4-pack-quantized'"));
  EXPECT_THAT(why(compressed("pack-quantized", weights(3, "int", "channel"))), HasSubstr("3 bits"));
  EXPECT_THAT(why(compressed("pack-quantized", weights(4, "int", "tensor_group"))),
              AllOf(HasSubstr("'tensor_group'"), HasSubstr("'group_0'")));
  EXPECT_THAT(why(compressed("pack-quantized", weights(4, "int", "group"))),
              HasSubstr("'group_size' is 0"));
  Json asymmetric = weights(8, "float", "channel");
  asymmetric["symmetric"] = false;
  EXPECT_THAT(why(compressed("float-quantized", asymmetric)), HasSubstr("zero points"));
  Json sparse = compressed("int-quantized", weights(8, "int", "channel"));
  sparse["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  EXPECT_THAT(why(sparse), HasSubstr("'sparse-24-bitmask'"));
  Json rotated = compressed("int-quantized", weights(8, "int", "channel"));
  rotated["transform_config"] = {{"config_groups", {{"u", 1}}}};
  EXPECT_THAT(why(rotated), HasSubstr("'transform_config'"));
  EXPECT_THAT(why(compressed("int-quantized", weights(8, "int", "channel"), {"re:(("})),
              HasSubstr("is not a regular expression"));
}

TEST(QuantisationScheme, SkipsWhatTheConfigIgnores) {
  Json config = compressed("float-quantized", weights(8, "float", "channel"));
  config["ignore"] = {"lm_head", "model.layers.1.mlp.down_proj", "re:.*layers\\.0\\.self_attn"};
  EXPECT_FALSE(of(config, "lm_head"));
  EXPECT_FALSE(of(config, "model.layers.1.mlp.down_proj"));
  EXPECT_TRUE(of(config, "model.layers.11.mlp.down_proj"));
  EXPECT_FALSE(of(config, "model.layers.0.self_attn.o_proj"));
  EXPECT_FALSE(of(config, "model.embed_tokens"));
  EXPECT_EQ(of(config, "model.layers.0.mlp.up_proj")->scales, ScalesBy::channel);
}

TEST(QuantisationScheme, PrefersNamesToPatternsAndThoseToClasses) {
  Json config = compressed("int-quantized", weights(8, "int", "channel"));
  Json& groups = config["config_groups"];
  const auto group = [](const char* target, int bits) {
    return Json{{"targets", {target}},
                {"format", "pack-quantized"},
                {"weights", weights(bits, "int", "channel")}};
  };
  groups["group_1"] = group("re:a\\.", 4);
  groups["group_2"] = group("a.b", 8);
  EXPECT_EQ(of(config, "c")->packing, Packing::int8);
  EXPECT_EQ(of(config, "a.c")->bits, 4);
  EXPECT_EQ(of(config, "a.b")->bits, 8);
  EXPECT_EQ(of(config, "a.b")->packing, Packing::words);
  EXPECT_EQ(of(config, "b.a.c")->packing, Packing::int8) << "patterns match from the start";
}

TEST(QuantisationScheme, TakesTheFirstDynamicRuleOfGptq) {
  const Json config = {{"quant_method", "gptq"},
                       {"bits", 4},
                       {"group_size", 64},
                       {"dynamic",
                        {{"-:.*layers\\.1\\.mlp", Json::object()},
                         {"+:.*mlp\\.up", {{"bits", 8}, {"group_size", 32}}},
                         {".*down", {{"group_size", -1}}}}}};
  EXPECT_FALSE(of(config, "model.layers.1.mlp.up_proj"));
  EXPECT_EQ(of(config, "model.layers.0.mlp.up_proj")->bits, 8);
  EXPECT_EQ(of(config, "model.layers.0.mlp.up_proj")->group, 32);
  EXPECT_EQ(of(config, "model.layers.0.mlp.down_proj")->group, -1);
  EXPECT_EQ(of(config, "model.layers.0.mlp.gate_proj")->group, 64);
  EXPECT_TRUE(of(config, "model.layers.0.mlp.gate_proj")->takes_1_off_zeros);
}

TEST(QuantisationScheme, ReadsTheVersionOfGptqUnderEitherName) {
  const auto takes_1_off = [](const Json& names) {
    Json config = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 64}};
    config.update(names);
    return of(config, "model.layers.0.mlp.up_proj")->takes_1_off_zeros;
  };
  EXPECT_TRUE(takes_1_off(Json::object()));
  EXPECT_TRUE(takes_1_off({{"format", "gptq"}, {"checkpoint_format", "gptq"}}));
  EXPECT_FALSE(takes_1_off({{"format", "gptq_v2"}}));
  EXPECT_FALSE(takes_1_off({{"checkpoint_format", "gptq_v2"}}));
  const Json both = {
      {"quant_method", "gptq"}, {"bits", 4}, {"format", "gptq_v2"}, {"checkpoint_format", "gptq"}};
  EXPECT_THAT(why(both), HasSubstr("'format' is 'gptq_v2'"));
}

TEST(QuantisationScheme, SkipsModulesAsEachMethodNamesThem) {
  const Json awq = {{"quant_method", "awq"},
                    {"bits", 4},
                    {"group_size", 64},
                    {"modules_to_not_convert", {"lm_head", "layers.1.mlp.gate"}}};
  EXPECT_FALSE(of(awq, "model.layers.1.mlp.gate_proj"));
  EXPECT_TRUE(of(awq, "model.layers.1.mlp.up_proj"));
  const Json fp8 = {{"quant_method", "fp8"},
                    {"weight_block_size", {128, 64}},
                    {"modules_to_not_convert", {"model.layers.1.mlp.gate", "v_proj"}}};
  EXPECT_TRUE(of(fp8, "model.layers.1.mlp.gate_proj"));
  EXPECT_FALSE(of(fp8, "model.layers.1.mlp.gate"));
  EXPECT_FALSE(of(fp8, "model.layers.1.self_attn.v_proj"));
  EXPECT_EQ(of(fp8, "model.layers.1.self_attn.q_proj")->col_block, 64);
  EXPECT_EQ(of(fp8, "model.layers.1.self_attn.q_proj")->row_block, 128);
  const Json nf4 = {{"quant_method", "bitsandbytes"},
                    {"_load_in_4bit", true},
                    {"bnb_4bit_quant_type", "nf4"},
                    {"llm_int8_skip_modules", {"lm_head"}}};
  EXPECT_FALSE(of(nf4, "lm_head"));
  EXPECT_EQ(of(nf4, "model.layers.1.mlp.up_proj")->codebook, "nf4");
}

TEST(QuantisationScheme, SaysThatKeysAndValuesWouldBeQuantised) {
  Json config = compressed("int-quantized", weights(8, "int", "channel"));
  EXPECT_FALSE((*read(config))->quantises_kv());
  config["kv_cache_scheme"] = {{"num_bits", 8}};
  EXPECT_TRUE((*read(config))->quantises_kv());
}

}  // namespace
}  // namespace tandem
