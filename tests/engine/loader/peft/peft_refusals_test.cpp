// Adapters that are refused, for their settings or for their tensors.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/engine/loader/peft/peft_adapter_fixture.h"

namespace tandem::peft_test {
namespace {

using ::testing::HasSubstr;

TEST_F(PeftAdapter, RefusesWhatChangesTheMaths) {
  add_everywhere({"q_proj"});
  ASSERT_EQ(message(lora({"q_proj"})), "accepted");
  EXPECT_THAT(message_with("use_dora", true), HasSubstr("DoRA"));
  EXPECT_THAT(message_with("bias", "some"), HasSubstr("none, all or lora_only"));
  EXPECT_THAT(message_with("fan_in_fan_out", true), HasSubstr("fan_in_fan_out"));
  EXPECT_THAT(message_with("peft_type", "LOHA"), HasSubstr("LOHA"));
  EXPECT_THAT(message_with("peft_type", nullptr), HasSubstr("'peft_type' is missing"));
  EXPECT_THAT(message_with("layer_replication", {{0, 2}, {1, 3}}), HasSubstr("replicated"));
  EXPECT_THAT(message_with("target_parameters", {"w"}), HasSubstr("parameters"));
  EXPECT_THAT(message_with("use_qalora", true), HasSubstr("QALoRA"));
  EXPECT_THAT(message_with("use_bdlora", {{"a", 1}}), HasSubstr("block-diagonal"));
  EXPECT_THAT(message_with("arrow_config", {{"top_k", 1}}), HasSubstr("Arrow"));
  EXPECT_THAT(message_with("use_something_new", true), HasSubstr("use_something_new"));
  EXPECT_THAT(message_with("new_config", {{"a", 1}}), HasSubstr("new_config"));
  EXPECT_THAT(message_with("init_lora_weights", "pissa_niter_4"), HasSubstr("alters the base"));
}

TEST_F(PeftAdapter, RefusesBiasesThatDoNotFit) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message_with("lora_bias", true), HasSubstr("lora_B.bias is missing"));
  EXPECT_THAT(message_with("lora_bias", 1), HasSubstr("lora_bias"));
  const std::string path = "base_model.model.model.layers.0.self_attn.q_proj";
  tensors_[path + ".lora_B.bias"] = {DType::f32, {18}, std::vector<float>(18, 1.0F)};
  EXPECT_THAT(message_with("lora_bias", false),
              HasSubstr("'lora_bias' of adapter_config.json is off"));
  for (const int layer : {1, 2}) {
    tensors_[fmt::format("base_model.model.model.layers.{}.self_attn.q_proj.lora_B.bias", layer)] =
        {DType::f32, {18}, std::vector<float>(18, 1.0F)};
  }
  EXPECT_EQ(message_with("lora_bias", true), "accepted");
  StoredTensor& bias = tensors_[path + ".lora_B.bias"];
  bias.values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_with("lora_bias", true), HasSubstr("NaN"));
  bias = {DType::f32, {17}, std::vector<float>(17, 1.0F)};
  EXPECT_THAT(message_with("lora_bias", true), HasSubstr("[18]"));
  std::erase_if(tensors_, [](const auto& each) { return each.first.ends_with("lora_B.bias"); });
  tensors_[path + ".base_layer.bias"] = {DType::f32, {18}, std::vector<float>(18, 1.0F)};
  EXPECT_THAT(message_with("bias", "lora_only"), HasSubstr("there is a bias for"));
}

TEST_F(PeftAdapter, RefusesInvocationsThatNoPromptCanHold) {
  add_everywhere({"q_proj"});
  constexpr const char* kField = "alora_invocation_tokens";
  EXPECT_EQ(message_with(kField, nullptr), "accepted");
  EXPECT_EQ(message_with(kField, {49, 0, 49}), "accepted");
  for (const Json& bad : {Json::array(), Json(7), Json("tell me"), Json(true), Json{"<|user|>"},
                          Json{1.5}, Json{-1}, Json{50}, Json(std::vector<int>(1025, 1))}) {
    EXPECT_THAT(message_with(kField, bad), HasSubstr(kField)) << bad;
  }
}

TEST_F(PeftAdapter, IsAnotherAdapterWithAnotherInvocation) {
  add_everywhere({"q_proj"});
  Json config = lora({"q_proj"});
  const Result<Adapter> plain = load(config);
  config["alora_invocation_tokens"] = {3, 4};
  const Result<Adapter> one = load(config);
  config["alora_invocation_tokens"] = {34};
  const Result<Adapter> two = load(config);
  ASSERT_TRUE(plain && one && two);
  EXPECT_EQ(plain->invocation, std::vector<TokenId>());
  EXPECT_EQ(one->invocation, (std::vector<TokenId>{3, 4}));
  EXPECT_NE(plain->digest, one->digest);
  EXPECT_NE(one->digest, two->digest);
  EXPECT_FALSE(same_layout(*one, *two));
}

TEST_F(PeftAdapter, RefusesUnknownSettingsThatAreNoMereNotes) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message_with("sparse", true), HasSubstr("'sparse' is set"));
  EXPECT_THAT(message_with("extra_layers", {1, 2}), HasSubstr("'extra_layers' is set"));
  EXPECT_THAT(message_with("gates", {{"q_proj", 2}}), HasSubstr("take it out of the file"));
  for (const Json& off :
       {Json(nullptr), Json(false), Json(0), Json(""), Json::array(), Json::object()}) {
    EXPECT_EQ(message_with("gates", off), "accepted") << off;
  }
}

TEST_F(PeftAdapter, IgnoresNotesAndSaysSoOnce) {
  add_everywhere({"q_proj"});
  Json config = lora({"q_proj"});
  config["num_epochs_of_mine"] = 3;
  config["author\n"] = "somebody";
  config["unsloth_fixed"] = true;
  write(config);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(load());
  EXPECT_TRUE(load());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(log, '\n'), 2) << log;
  EXPECT_THAT(log, HasSubstr("the setting \"num_epochs_of_mine\" is not known and ignored"));
  EXPECT_THAT(log, HasSubstr("the setting \"author\\n\" is not known and ignored"));
}

TEST_F(PeftAdapter, AcceptsSettingsThatOnlyConcernTraining) {
  add_everywhere({"q_proj"});
  EXPECT_EQ(message_with("init_lora_weights", "gaussian"), "accepted");
  EXPECT_EQ(message_with("init_lora_weights", false), "accepted");
  EXPECT_EQ(message_with("lora_dropout", 0.1), "accepted");
  EXPECT_EQ(message_with("eva_config", {{"rho", 2}}), "accepted");
  EXPECT_EQ(message_with("qalora_group_size", 16), "accepted");
  EXPECT_EQ(message_with("some_note", "text"), "accepted");
  EXPECT_EQ(message_with("use_dora", nullptr), "accepted");
}

TEST_F(PeftAdapter, RefusesAbsurdSettingsByName) {
  add_everywhere({"q_proj"});
  for (const Json& rank :
       {Json(0), Json(-1), Json(2049), Json(4.0), Json("4"), Json(nullptr), Json(1e30)}) {
    EXPECT_THAT(message_with("r", rank), HasSubstr("'r'")) << rank;
  }
  EXPECT_THAT(message_with("lora_alpha", "x"), HasSubstr("lora_alpha"));
  EXPECT_THAT(message_with("lora_alpha", nullptr), HasSubstr("lora_alpha"));
  EXPECT_THAT(message_with("use_rslora", 1), HasSubstr("use_rslora"));
  EXPECT_THAT(message_with("target_modules", 3), HasSubstr("target_modules"));
  EXPECT_THAT(message_with("target_modules", {1}), HasSubstr("target_modules"));
  EXPECT_THAT(message_with("target_modules", {""}), HasSubstr("target_modules"));
  EXPECT_THAT(message_with("target_modules", Json::array()), HasSubstr("adapts no module"));
  EXPECT_THAT(message_with("rank_pattern", {{"q_proj", 0}}), HasSubstr("rank_pattern.q_proj"));
  EXPECT_THAT(message_with("rank_pattern", {{"q_proj", 2049}}), HasSubstr("rank_pattern.q_proj"));
  EXPECT_THAT(message_with("rank_pattern", {1}), HasSubstr("rank_pattern"));
  EXPECT_THAT(message_with("rank_pattern", {{"(", 2}}), HasSubstr("not a regular expression"));
  EXPECT_THAT(message_with("alpha_pattern", {{"q_proj", "x"}}), HasSubstr("alpha_pattern.q_proj"));
  EXPECT_THAT(message_with("exclude_modules", "("), HasSubstr("exclude_modules"));
}

TEST_F(PeftAdapter, GivesUpOnAPatternThatTakesForEver) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message(lora("(([a-z.0-9_]+)+)+[A-Z]")), HasSubstr("cannot be used"));
}

TEST_F(PeftAdapter, RefusesAHeadOfOtherShapesOrWithoutItsTensors) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message(lora({"q_proj", "lm_head"})), HasSubstr("lm_head"));
  add_matrix("base_model.model.lm_head.lora_A.weight", 4, base().hidden_size);
  EXPECT_THAT(message(lora({"q_proj", "lm_head"})), HasSubstr("lora_B is missing"));
  add_matrix("base_model.model.lm_head.lora_B.weight", base().vocab_size + 1, 4);
  EXPECT_THAT(message(lora({"q_proj", "lm_head"})), HasSubstr("lora_B of lm_head"));
  tensors_.erase("base_model.model.lm_head.lora_B.weight");
  add_matrix("base_model.model.lm_head.lora_B.weight", base().vocab_size, 4);
  EXPECT_EQ(message(lora({"q_proj", "lm_head"})), "accepted");
  add_everywhere({"k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"});
  EXPECT_THAT(message(lora("all-linear")),
              HasSubstr("lm_head, which adapter_config.json does not"));
}

TEST_F(PeftAdapter, RefusesAnEmbeddingOfOtherShapes) {
  add_everywhere({"q_proj"});
  const std::string path = "base_model.model.model.embed_tokens.";
  EXPECT_THAT(message(lora({"q_proj", "embed_tokens"})), HasSubstr("lora_A is missing"));
  add_matrix(path + "lora_embedding_A", 4, base().vocab_size);
  add_matrix(path + "lora_embedding_B", base().hidden_size, 4);
  EXPECT_EQ(message(lora({"q_proj", "embed_tokens"})), "accepted");
  EXPECT_THAT(message(lora({"q_proj"})), HasSubstr("does not target"));
  tensors_.erase(path + "lora_embedding_A");
  add_matrix(path + "lora_embedding_A", 4, base().vocab_size - 1);
  EXPECT_THAT(message(lora({"q_proj", "embed_tokens"})), HasSubstr("lora_A of model.embed_tokens"));
}

TEST_F(PeftAdapter, RefusesWholeModulesThatAreMissingOrDoNotFit) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message_with("modules_to_save", {"lm_head"}), HasSubstr("weight is missing"));
  EXPECT_THAT(message_with("modules_to_save", {"norm"}),
              HasSubstr("model.layers.0.input_layernorm is adapted"));
  EXPECT_THAT(message_with("modules_to_save", {"rotary_emb"}), HasSubstr("names rotary_emb"));
  EXPECT_THAT(message_with("modules_to_save", Json(std::vector<std::string>(8193, "norm"))),
              HasSubstr("8193 names"));
  EXPECT_THAT(message_with("modules_to_save", "lm_head"), HasSubstr("list of names"));
  const std::string head = "base_model.model.lm_head.weight";
  add_matrix(head, base().vocab_size, base().hidden_size);
  EXPECT_EQ(message_with("modules_to_save", {"lm_head"}), "accepted");
  add_matrix("base_model.model.lm_head.modules_to_save.weight", base().vocab_size,
             base().hidden_size);
  EXPECT_THAT(message_with("modules_to_save", {"lm_head"}), HasSubstr("two names"));
  tensors_.erase("base_model.model.lm_head.modules_to_save.weight");
  tensors_.erase(head);
  add_matrix(head, base().vocab_size, base().hidden_size + 1);
  EXPECT_THAT(message_with("modules_to_save", {"lm_head"}), HasSubstr("the weight of lm_head"));
  add_matrix("base_model.model.model.embed_tokens.weight", base().vocab_size + 6,
             base().hidden_size);
  const std::string rows = fmt::format("embedding has {} rows and its head {}",
                                       base().vocab_size + 6, base().vocab_size);
  EXPECT_THAT(message_with("modules_to_save", {"lm_head"}), HasSubstr(rows));
}

TEST_F(PeftAdapter, RefusesRowsOfTokensThatAreMissingOrDoNotFit) {
  constexpr const char* kField = "trainable_token_indices";
  const std::string head = "base_model.model.lm_head.token_adapter.trainable_tokens_delta";
  const std::string embedding =
      "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
  add_everywhere({"q_proj"});
  EXPECT_THAT(message_with(kField, {5, 6}), HasSubstr("its trainable_tokens_delta is missing"));
  add_matrix(embedding, 2, 20);
  EXPECT_EQ(message_with(kField, {5, 6}), "accepted");
  EXPECT_EQ(message_with(kField, {{"embed_tokens", {0, 49}}}), "accepted");
  EXPECT_THAT(message_with(kField, nullptr), HasSubstr("does not target"));
  EXPECT_THAT(message_with(kField, Json::array()), HasSubstr("does not target"));
  EXPECT_THAT(message_with(kField, {5, 6, 7}), HasSubstr("[3, 20]"));
  EXPECT_THAT(message_with(kField, {5, 5}), HasSubstr("token 5 twice"));
  EXPECT_THAT(message_with(kField, {5, 50}),
              HasSubstr("has no rows for some of the tokens 50 to 50"));
  EXPECT_THAT(message_with(kField, {5, 51}), HasSubstr("token 51, the base has tokens 0 to 49"));
  EXPECT_THAT(message_with(kField, {5, (1LL << 31) - 1}), HasSubstr("token 2147483647, the base"));
  EXPECT_THAT(message_with(kField, {5, -1}), HasSubstr("is -1"));
  EXPECT_THAT(message_with(kField, {5, 1LL << 31}), HasSubstr("2147483648"));
  EXPECT_THAT(message_with(kField, {5, "6"}), HasSubstr("whole number"));
  EXPECT_THAT(message_with(kField, 5), HasSubstr("list of 1 to"));
  EXPECT_THAT(message_with(kField, {{"q_proj", {5, 6}}}), HasSubstr("names q_proj"));
  EXPECT_THAT(message_with(kField, {{"embed_tokens", {5, 6}}, {"model.embed_tokens", {7}}}),
              HasSubstr("names model.embed_tokens"));
  EXPECT_THAT(message_with(kField, {{"embed_tokens", {5, 6}}, {"lm_head", {1, 2}}}),
              HasSubstr("lm_head is adapted"));
  add_matrix(head, 2, 20);
  EXPECT_EQ(message_with(kField, {{"embed_tokens", {5, 6}}, {"lm_head", {1, 2}}}), "accepted");
  EXPECT_THAT(message_with(kField, {5, 6}), HasSubstr("for lm_head"));
  tensors_.erase(head);
  tensors_[embedding].values[7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message_with(kField, {5, 6}), HasSubstr("embed_tokens holds a NaN"));
  tensors_[embedding].values[7] = 0;
  Json config = lora({"q_proj", "embed_tokens"});
  config[kField] = {5, 6};
  EXPECT_THAT(message(config), HasSubstr("one of them"));
}

TEST_F(PeftAdapter, RefusesVocabulariesThatItsTensorsDoNotHave) {
  const std::string embedding = "base_model.model.model.embed_tokens.weight";
  const std::string head = "base_model.model.lm_head.weight";
  const std::string trained =
      "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
  add_everywhere({"q_proj"});
  add_matrix(embedding, 52, 20);
  EXPECT_THAT(message_with("r", 4), HasSubstr("lm_head has no rows for some of the tokens 50"));
  add_matrix(head, 51, 20);
  EXPECT_THAT(message_with("r", 4), HasSubstr("embedding has 52 rows and its head 51"));
  add_matrix(head, 52, 20);
  EXPECT_EQ(message_with("r", 4), "accepted");
  EXPECT_THAT(message_with("alora_invocation_tokens", {1}), HasSubstr("base's vocabulary, 50"));
  add_matrix(trained, 1, 20);
  EXPECT_EQ(message_with("trainable_token_indices", {51}), "accepted");
  EXPECT_THAT(message_with("trainable_token_indices", {52}),
              HasSubstr("token 52, the adapter has tokens 0 to 51"));
  add_matrix(embedding, 49, 20);
  add_matrix(head, 49, 20);
  tensors_.erase(trained);
  EXPECT_THAT(message_with("r", 4), HasSubstr("[50, 20]"));
}

TEST_F(PeftAdapter, RefusesScoreHeadsThatAreMissingOrDoNotFit) {
  add_everywhere({"q_proj"});
  const Json saved = {"classifier", "score"};
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("score is saved"));
  const std::string name = "base_model.model.score.weight";
  add_matrix(name, 3, base().hidden_size);
  EXPECT_EQ(message_with("modules_to_save", saved), "accepted");
  EXPECT_EQ(message(lora({"q_proj"})), "accepted");
  add_matrix("base_model.model.score.modules_to_save.default.weight", 3, base().hidden_size);
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("two names"));
  tensors_.erase("base_model.model.score.modules_to_save.default.weight");
  add_matrix(name, 3, base().hidden_size + 1);
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("the weight of score"));
  add_matrix(name, kMaxLabels + 1, base().hidden_size);
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("labels"));
  tensors_[name] = {DType::f32, {base().hidden_size}, {}};
  tensors_[name].values.resize(static_cast<std::size_t>(base().hidden_size));
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("the weight of score"));
  add_matrix(name, 3, base().hidden_size);
  tensors_[name].values[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("NaN"));
  add_matrix("base_model.model.score.lora_A.weight", 4, base().hidden_size);
  add_matrix(name, 3, base().hidden_size);
  EXPECT_THAT(message_with("modules_to_save", saved), HasSubstr("tensors for score"));
}

TEST_F(PeftAdapter, RefusesTensorsThatDoNotBelong) {
  add_everywhere({"q_proj"});
  const auto refused = [&](const std::string& name) {
    add_matrix(name, 4, 20);
    const std::string why = message(lora({"q_proj"}));
    tensors_.erase(name);
    return why;
  };
  const std::string layer = "base_model.model.model.layers.0.";
  EXPECT_THAT(refused(layer + "self_attn.q_proj.lora_magnitude_vector"), HasSubstr("DoRA"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.lora_B.bias"), HasSubstr("bias"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.base_layer.bias"), HasSubstr("bias"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.bias"), HasSubstr("bias"));
  EXPECT_THAT(refused("base_model.model.lm_head.modules_to_save.weight"),
              HasSubstr("the weight of lm_head"));
  EXPECT_THAT(refused("base_model.model.lm_head.weight"), HasSubstr("the weight of lm_head"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.weight"), HasSubstr("does not target"));
  EXPECT_THAT(refused(layer + "input_layernorm.weight"), HasSubstr("does not target"));
  EXPECT_THAT(refused(layer + "lm_head.weight"), HasSubstr("the base does not have"));
  EXPECT_THAT(refused("something"), HasSubstr("not A or B"));
  EXPECT_THAT(refused("model.layers.0.self_attn.q_proj.lora_A.weight"), HasSubstr("two names"));
  EXPECT_THAT(refused("base_model.model..lora_A.weight"), HasSubstr("does not have"));
  EXPECT_THAT(refused("base_model.model.lora_A.weight"), HasSubstr("the base does not have"));
  EXPECT_THAT(refused(layer + "self_attn.v_proj.lora_A.weight"), HasSubstr("does not target"));
  EXPECT_THAT(refused(layer + "self_attn.qkv_proj.lora_A.weight"),
              HasSubstr("the base does not have"));
  EXPECT_THAT(refused("base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"),
              HasSubstr("model.layers.3.self_attn.q_proj, which the base does not have"));
  EXPECT_THAT(refused(layer + "self_attn.q_proj.lora_A.default.weight"), HasSubstr("two names"));
}

TEST_F(PeftAdapter, RefusesWholeProjectionsNormsAndBiasesThatDoNotFit) {
  add_everywhere({"q_proj"});
  const std::string layer = "base_model.model.model.layers.1.";
  const auto message_for = [&](const std::string& name, std::vector<std::int64_t> shape,
                               const std::string& saved) {
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) elements *= size;
    tensors_[name] = {DType::f32, std::move(shape),
                      std::vector<float>(static_cast<std::size_t>(elements), 1.0F)};
    return message_with("modules_to_save", {saved});
  };
  const std::string norm = "1.input_layernorm";
  EXPECT_THAT(message_for(layer + "input_layernorm.weight", {19}, norm), HasSubstr("[20]"));
  EXPECT_THAT(message_for(layer + "input_layernorm.weight", {20, 1}, norm), HasSubstr("[20]"));
  EXPECT_EQ(message_for(layer + "input_layernorm.weight", {20}, norm), "accepted");
  tensors_[layer + "input_layernorm.weight"].values[7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message_with("modules_to_save", {norm}),
              HasSubstr("the weight of model.layers.1.input_layernorm holds a NaN"));
  tensors_.erase(layer + "input_layernorm.weight");
  const std::string o_proj = "1.self_attn.o_proj";
  EXPECT_THAT(message_for(layer + "self_attn.o_proj.weight", {20, 20}, o_proj),
              HasSubstr("[20, 18]"));
  EXPECT_EQ(message_for(layer + "self_attn.o_proj.weight", {20, 18}, o_proj), "accepted");
  Json activated = lora({"q_proj"});
  activated["modules_to_save"] = {o_proj};
  activated["alora_invocation_tokens"] = {3};
  EXPECT_THAT(message(activated), HasSubstr("cannot replace model.layers.1.self_attn.o_proj"));
  // A module that is saved has no LoRA.
  EXPECT_THAT(message_for(layer + "self_attn.q_proj.weight", {18, 20}, "1.self_attn.q_proj"),
              HasSubstr("does not target"));
  tensors_[layer + "self_attn.o_proj.bias"] = {DType::f32, {20}, std::vector<float>(20, 1.0F)};
  tensors_.erase(layer + "self_attn.q_proj.weight");
  EXPECT_THAT(message_with("modules_to_save", {o_proj}), HasSubstr("there is a bias for"));
}

TEST_F(PeftAdapter, TakesTrainedBiasesThatTheBaseDoesNotHave) {
  add_everywhere({"q_proj"});
  EXPECT_EQ(message_with("bias", "all"), "accepted");
  EXPECT_EQ(message_with("bias", "lora_only"), "accepted");
}

TEST_F(PeftAdapter, PassesOverTargetsTheBaseDoesNotHaveAndSaysSoOnce) {
  add_everywhere({"q_proj"});
  write(lora({"q_proj"}));
  const std::string digest = load()->digest;
  write(lora({"q_proj", "c_attn", "mlp.W_pack", "model.layers.3.self_attn.k_proj", "roj",
              "model.layers.0.self_attn.q_proj"}));
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round) {
    const Result<Adapter> adapter = load();
    ASSERT_TRUE(adapter) << adapter.status().message();
    EXPECT_EQ(adapter->digest, digest);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(log, '\n'), 4) << log;
  EXPECT_THAT(log, HasSubstr("'target_modules' names \"c_attn\", which the base does not have"));
  EXPECT_THAT(log, HasSubstr("model.layers.3.self_attn.k_proj"));
}

TEST_F(PeftAdapter, RefusesTargetsOfWhichTheBaseHasNone) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message(lora({"c_attn", "query_key_value"})), HasSubstr("adapts no module"));
}

TEST_F(PeftAdapter, LooksThroughAListOfMuchNonsenseInNoTime) {
  add_everywhere({"q_proj"});
  Json targets = {"q_proj"};
  for (int i = 0; i < 50'000; ++i) targets.push_back("x" + std::to_string(i));
  EXPECT_EQ(message(lora(targets)), "accepted");
}

TEST_F(PeftAdapter, RefusesWhenAOrBIsMissing) {
  for (const std::string letter : {"A", "B"}) {
    add_everywhere({"q_proj"});
    tensors_.erase(
        fmt::format("base_model.model.model.layers.1.self_attn.q_proj.lora_{}.weight", letter));
    EXPECT_THAT(message(lora({"q_proj"})),
                HasSubstr(fmt::format("model.layers.1.self_attn.q_proj is adapted according to "
                                      "adapter_config.json, but its lora_{} is missing",
                                      letter)));
  }
  add_everywhere({"q_proj"});
  EXPECT_THAT(message(lora({"q_proj", "v_proj"})), HasSubstr("v_proj"));
}

TEST_F(PeftAdapter, RefusesShapesThatDoNotFit) {
  add_everywhere({"q_proj"});
  EXPECT_THAT(message(lora({"q_proj"}, 8)), HasSubstr("ask for [8, 20]"));
  const std::string path = "base_model.model.model.layers.2.self_attn.q_proj.lora_";
  add_matrix(path + "A.weight", 4, 21);
  EXPECT_THAT(message(lora({"q_proj"})),
              HasSubstr("lora_A of model.layers.2.self_attn.q_proj is F32[4, 21]"));
  add_matrix(path + "A.weight", 4, 20);
  add_matrix(path + "B.weight", 20, 4);
  EXPECT_THAT(message(lora({"q_proj"})), HasSubstr("ask for [18, 4]"));
}

TEST_F(PeftAdapter, RefusesWeightsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const std::string letter : {"A", "B"}) {
      add_everywhere({"q_proj"});
      tensors_["base_model.model.model.layers.1.self_attn.q_proj.lora_" + letter + ".weight"]
          .values.back() = bad;
      write(lora({"q_proj"}));
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        EXPECT_THAT(load_as(dtype).status().message(),
                    HasSubstr(fmt::format("lora_{} of model.layers.1.self_attn.q_proj holds a NaN",
                                          letter)));
      }
    }
  }
  add_everywhere({"q_proj"});
  tensors_["base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"].values[3] = 60000;
  write(lora({"q_proj"}));
  EXPECT_TRUE(load_as(DType::bf16));
  EXPECT_THAT(load_as(DType::f16).status().message(), HasSubstr("beyond the range of f16"));
}

}  // namespace
}  // namespace tandem::peft_test
