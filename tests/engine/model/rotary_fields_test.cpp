#include "engine/model/families/rotary_fields.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/engine/model/config_json.h"

namespace tandem {
namespace {

using test::config_of;
using test::Json;
using test::llama;
using test::message;
using test::message_of;
using test::message_with;
using ::testing::HasSubstr;

TEST(RotaryFields, ReadLlama3RopeInAllSpellings) {
  const Json scaling = {{"factor", 32.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  Json v5 = llama();
  v5["rope_parameters"] = scaling;
  v5["rope_parameters"]["rope_type"] = "llama3";
  v5["rope_parameters"]["rope_theta"] = 500000.0;
  Json v4 = llama();
  v4["rope_theta"] = 500000;
  v4["rope_scaling"] = scaling;
  v4["rope_scaling"]["rope_type"] = "llama3";
  Json old = v4;
  old["rope_scaling"].erase("rope_type");
  old["rope_scaling"]["type"] = "llama3";
  for (const Json& json : {v5, v4, old}) {
    const Result<ModelSpec> config = parse_model_spec(json.dump());
    ASSERT_TRUE(config) << config.status().message();
    EXPECT_EQ(config->rotary[0].theta, 500000);
    ASSERT_TRUE(config->rotary[0].llama3);
    EXPECT_EQ(config->rotary[0].llama3->factor, 32);
    EXPECT_EQ(config->rotary[0].llama3->low_freq_factor, 1);
    EXPECT_EQ(config->rotary[0].llama3->high_freq_factor, 4);
    EXPECT_EQ(config->rotary[0].llama3->original_max_position_embeddings, 8192);
  }
  v4["rope_scaling"].erase("factor");
  EXPECT_THAT(message(v4), HasSubstr("rope_scaling: 'factor' is missing"));
}

TEST(RotaryFields, RefuseOtherRopesByName) {
  for (const char* type : {"ntk", "proportional"}) {
    EXPECT_THAT(message_with("rope_scaling", {{"type", type}, {"factor", 2}}), HasSubstr(type));
    EXPECT_THAT(message_with("rope_parameters", {{"rope_type", type}, {"rope_theta", 1e4}}),
                HasSubstr(type));
  }
  EXPECT_THAT(message_with("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(message_with("rope_parameters", {{"factor", 2}}),
              HasSubstr("rope_parameters: 'rope_type' is missing"));
  EXPECT_EQ(message_with("rope_scaling", {{"type", "default"}}), "accepted");
}

TEST(RotaryFields, ReadLinearAndYarnRopes) {
  Json json = llama();
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(parse_model_spec(json.dump())->rotary[0].linear_factor, 4);
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const RotarySpec yarn = parse_model_spec(json.dump())->rotary[0];
  ASSERT_TRUE(yarn.yarn);
  EXPECT_EQ(yarn.yarn->factor, 4);
  EXPECT_EQ(yarn.yarn->original_max_position_embeddings, 2048);
  EXPECT_NEAR(yarn.attention_factor, 1.138629, 1e-6);
  json["rope_scaling"]["mscale"] = 0.7;
  json["rope_scaling"]["mscale_all_dim"] = 0.7;
  EXPECT_EQ(parse_model_spec(json.dump())->rotary[0].attention_factor, 1);
  json["rope_scaling"]["attention_factor"] = 1.25;
  EXPECT_EQ(parse_model_spec(json.dump())->rotary[0].attention_factor, 1.25);
  json["rope_scaling"].erase("factor");
  EXPECT_THAT(message(json), HasSubstr("rope_scaling: 'factor' is missing"));
}

TEST(RotaryFields, ReadDynamicRopeWhoseContextGrowsByItsFactor) {
  Json json = llama();
  json["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.5}};
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  ASSERT_TRUE(spec.rotary[0].dynamic);
  EXPECT_EQ(spec.rotary[0].dynamic->factor, 2.5);
  EXPECT_EQ(spec.rotary[0].dynamic->original, 2048);
  EXPECT_EQ(spec.max_position_embeddings, 5120);
  EXPECT_FALSE(spec.rotary_lengths().whole);
  json["rope_scaling"]["original_max_position_embeddings"] = 1024;
  EXPECT_THAT(message(json), HasSubstr("original_max_position_embeddings"));
  json["rope_scaling"] = {{"type", "dynamic"}, {"factor", 0.5}};
  EXPECT_THAT(message(json), HasSubstr("'factor' is 0.5"));
}

TEST(RotaryFields, ReadBothListsOfLongRopeAndRefuseWhatContradictsThem) {
  const Json json = config_of("phi3_longrope");
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  ASSERT_TRUE(spec.rotary[0].longrope);
  EXPECT_EQ(spec.rotary[0].longrope->original, 128);
  EXPECT_EQ(spec.rotary[0].longrope->short_factors[1], 1.312);
  EXPECT_EQ(spec.rotary[0].longrope->long_factors[7], 12.062);
  EXPECT_NEAR(spec.rotary[0].attention_factor, std::sqrt(1 + std::log(4.0) / std::log(128.0)),
              1e-12);
  EXPECT_TRUE(spec.rotary_lengths().whole);
  const auto with = [&](const std::string& field, const Json& value) {
    Json rope = json["rope_parameters"];
    rope[field] = value;
    return message_of(json, "rope_parameters", rope);
  };
  EXPECT_EQ(with("factor", 4), "accepted");
  EXPECT_THAT(with("factor", 8), HasSubstr("'factor' is 8"));
  EXPECT_THAT(with("short_factor", {1, 2, 3}), HasSubstr("3 factors for 8 pairs"));
  EXPECT_THAT(with("long_factor", {1, 2, 3, 4, 5, 6, 7, -1}), HasSubstr("long_factor"));
  EXPECT_THAT(with("long_factor", nullptr), HasSubstr("long_factor"));
  EXPECT_THAT(with("original_max_position_embeddings", 64), HasSubstr("64 here and 128"));
  EXPECT_THAT(with("long_mscale", 1.2), HasSubstr("long_mscale"));
  Json without = json;
  without.erase("original_max_position_embeddings");
  EXPECT_EQ(message(without), "accepted");
  without["rope_parameters"].erase("original_max_position_embeddings");
  EXPECT_THAT(message(without), HasSubstr("'original_max_position_embeddings' is missing"));
}

TEST(RotaryFields, ChooseTheLocalTableWhereTheWindowIsNoShorterThanTheContext) {
  Json json = config_of("gemma3_text");
  json["sliding_window"] = 512;
  const ModelSpec spec = parse_model_spec(json.dump()).value();
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    EXPECT_EQ(spec.layer(layer).attention.window, 0);
    EXPECT_EQ(spec.layer(layer).attention.rotary, layer == 2 ? 0U : 1U);
  }
}

}  // namespace
}  // namespace tandem
