// The calls besides completions: models, adapters, tokens, metrics, the description.
#include <unistd.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "engine/server/api.h"
#include "engine/server/messages/request/request_fields.h"
#include "engine/server/messages/request/unsupported_fields.h"
#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kLoad = "/v1/load_lora_adapter";
constexpr const char* kUnload = "/v1/unload_lora_adapter";

// Works in its own folder: root/good, root/link-out -> outside, outside/secret.
class ApiTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    folder = fs::temp_directory_path() /
             ("tandem-api-" + std::to_string(::getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder);
    fs::create_directories(folder / "root" / "good");
    fs::create_directories(folder / "outside" / "secret");
    fs::create_directories(folder / "root-and-more");
    fs::create_directory_symlink(folder / "outside", folder / "root" / "link-out");
    fs::create_directory_symlink(folder / "root" / "good", folder / "root" / "link-in");
  }
  void TearDown() override {
    ServerTest::TearDown();
    fs::remove_all(folder);
  }
  void start_with_root() {
    options.adapter_roots = {folder / "root"};
    start();
  }
  ClientResponse load(const std::string& name, const fs::path& path, json more = json::object()) {
    more["lora_name"] = name;
    more["lora_path"] = path.string();
    return post(port, kLoad, more);
  }

  fs::path folder;
};

TEST_F(ApiTest, ListsTheBaseAndItsAdapters) {
  start();
  ASSERT_TRUE(service.load_adapter("org/poet", "/a/poet", false, false).ok());
  const json list = get(port, "/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "base");
  EXPECT_EQ(list["data"][0]["parent"], nullptr);
  EXPECT_EQ(list["data"][0]["root"], "/models/base");
  EXPECT_EQ(list["data"][0]["max_model_len"], 64);
  const json poet = get(port, "/v1/models/org/poet").json();
  EXPECT_EQ(poet, list["data"][1]);
  EXPECT_EQ(poet["parent"], "base");
  EXPECT_EQ(poet["root"], "/a/poet");
  EXPECT_EQ(poet["created"], 1700000000);
  EXPECT_EQ(get(port, "/v1/models/org%2Fpoet").json(), poet);
  EXPECT_EQ(get(port, "/v1/models/base").json(), list["data"][0]);
}

TEST_F(ApiTest, AnswersHeadLikeGetWithoutTheBody) {
  start();
  TestClient client(port);
  client.send(http_request("HEAD", "/health"));
  const auto head = client.receive_head();
  EXPECT_EQ(head.status, 200);
  client.send(http_request("GET", "/health"));
  EXPECT_EQ(client.receive().body, R"({"status":"ok"})");
}

TEST_F(ApiTest, LoadsListsAndUnloadsAnAdapter) {
  start_with_root();
  const auto loaded = load("poet", folder / "root" / "good", {{"pinned", true}});
  ASSERT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.body, "Success: LoRA adapter 'poet' added successfully.");
  const json adapters = get(port, "/v1/adapters").json();
  const json adapter = adapters["data"][0];
  EXPECT_EQ(adapter["name"], "poet");
  EXPECT_EQ(adapter["path"], (folder / "root" / "good").string());
  EXPECT_EQ(adapter["rank"], 8);
  EXPECT_EQ(adapter["modules"], json({"q_proj", "v_proj"}));
  EXPECT_EQ(adapter["bytes"], 4096);
  EXPECT_EQ(adapter["tier"], "host");
  EXPECT_EQ(adapter["pinned"], true);
  for (const char* count : {"running", "waiting", "hits", "cold_starts"}) {
    EXPECT_EQ(adapter[count], 0) << count;
  }
  const auto unloaded = post(port, kUnload, {{"lora_name", "poet"}});
  ASSERT_EQ(unloaded.status, 200) << unloaded.body;
  EXPECT_EQ(unloaded.body, "Success: LoRA adapter 'poet' removed successfully.");
  const auto unknown = post(port, kUnload, {{"lora_name", "poet"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.error("param"), "lora_name");
}

TEST_F(ApiTest, TellsWithTheAdaptersWhatWasLearnedOfColdStarts) {
  start();
  const json learned = get(port, "/v1/adapters").json()["handoff"]["learned"];
  EXPECT_EQ(learned,
            json({{"costs",
                   {{"link", {{"factor", 1.25}, {"lessons", 9}}},
                    {"read_xa", {{"factor", 0.5}, {"lessons", 4}, {"by_size", {0.5, 0.75}}}}}},
                  {"lessons", 321},
                  {"situations", 7},
                  {"plans_followed", 60},
                  {"plans_given_up", 5},
                  {"worker_wake_seconds", 0.25}}));
}

TEST_F(ApiTest, TakesAPathBelowARootHoweverItIsWritten) {
  start_with_root();
  EXPECT_EQ(load("a", "good").status, 200);
  EXPECT_EQ(load("b", folder / "outside" / ".." / "root" / "good").status, 200);
  EXPECT_EQ(load("c", folder / "root" / "link-in").status, 200);
  const std::string real = (folder / "root" / "good").string();
  for (const AdapterInfo& adapter : service.adapters()) EXPECT_EQ(adapter.path, real);
}

TEST_F(ApiTest, SaysTheSameOfEveryPathOutsideTheRoots) {
  start_with_root();
  std::set<std::string> bodies;
  for (const fs::path& path :
       {folder / "outside" / "secret", folder / "outside" / "nothing",
        folder / "root" / ".." / "outside", folder / "root" / "link-out",
        folder / "root" / "link-out" / "secret", folder / "root" / "link-out" / "nothing",
        folder / "root-and-more", fs::path("/"), fs::path("/etc/passwd"), fs::path("/no/such"),
        fs::path("../outside/secret"), fs::path("link-out/secret")}) {
    const auto response = load("x", path);
    EXPECT_EQ(response.status, 403) << path;
    EXPECT_EQ(response.error("code"), "path_not_allowed") << path;
    bodies.insert(response.body);
  }
  EXPECT_EQ(bodies.size(), 1U);
  EXPECT_TRUE(service.adapters().empty());
}

TEST_F(ApiTest, LoadsNothingWithoutRoots) {
  start();
  for (const auto& response :
       {load("poet", folder / "root" / "good"), post(port, kUnload, {{"lora_name", "poet"}})}) {
    EXPECT_EQ(response.status, 403);
    EXPECT_EQ(response.error("code"), "adapter_loading_off");
    EXPECT_NE(response.error().find("--adapter-root"), std::string::npos);
  }
}

TEST_F(ApiTest, ReplacesAnAdapterOnlyWhenAsked) {
  start_with_root();
  fs::create_directories(folder / "root" / "other");
  ASSERT_EQ(load("poet", "good").status, 200);
  EXPECT_EQ(load("poet", "good").status, 200);
  const auto taken = load("poet", "other");
  EXPECT_EQ(taken.status, 409);
  EXPECT_EQ(taken.error("type"), "conflict_error");
  EXPECT_EQ(load("poet", "other", {{"load_inplace", true}}).status, 200);
  service.load_status = invalid("it fits no module of the base");
  EXPECT_EQ(load("painter", "good").status, 400);
}

TEST_F(ApiTest, ChecksTheFieldsOfALoad) {
  start_with_root();
  for (const std::string& name : {std::string(), std::string("a b"), std::string(129, 'x'),
                                  std::string("né"), std::string("base"), std::string("a\nb")}) {
    const auto response = load(name, "good");
    EXPECT_EQ(response.status, 400) << name;
    EXPECT_EQ(response.error("param"), "lora_name") << name;
  }
  EXPECT_EQ(post(port, kLoad, {{"lora_name", 5}, {"lora_path", "good"}}).error("param"),
            "lora_name");
  EXPECT_EQ(post(port, kLoad, {{"lora_name", "x"}}).error("param"), "lora_path");
  EXPECT_EQ(load("x", std::string("go\0od", 5)).error("param"), "lora_path");
  EXPECT_EQ(load("x", "good", {{"pinned", 1}}).error("param"), "pinned");
  EXPECT_EQ(load("x", "good", {{"load_inplace", "no"}}).error("param"), "load_inplace");
}

TEST_F(ApiTest, TurnsTextToTokensAndBack) {
  start();
  const json tokens =
      post(port, "/tokenize", {{"prompt", "Hi"}, {"return_token_strs", true}}).json();
  EXPECT_EQ(tokens, json({{"count", 3},
                          {"max_model_len", 64},
                          {"tokens", {256, 'H', 'i'}},
                          {"token_strs", {"<s>", "H", "i"}}}));
  const json bare =
      post(port, "/tokenize", {{"prompt", "Hi"}, {"add_special_tokens", false}}).json();
  EXPECT_EQ(bare["tokens"], json({'H', 'i'}));
  EXPECT_EQ(bare["token_strs"], nullptr);
  const json chat{{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                  {"add_generation_prompt", false}};
  const json chat_tokens = post(port, "/tokenize", chat).json();
  const json text_back = post(port, "/detokenize", {{"tokens", chat_tokens["tokens"]}}).json();
  EXPECT_EQ(text_back, json({{"prompt", "user: Hi\n"}}));
  EXPECT_EQ(post(port, "/detokenize", {{"tokens", {256, 'x'}}}).json()["prompt"], "<s>x");
  // A token that is not UTF-8 on its own must not break the JSON.
  EXPECT_EQ(post(port, "/detokenize", {{"tokens", {0xFF}}}).json()["prompt"], "\xEF\xBF\xBD");
  for (const json& bad : {json{{"tokens", {257}}}, json{{"tokens", {-1}}}, json{{"tokens", "x"}},
                          json{{"tokens", {1.5}}}, json::object()}) {
    EXPECT_EQ(post(port, "/detokenize", bad).error("param"), "tokens") << bad;
  }
  EXPECT_EQ(post(port, "/tokenize", json::object()).error("param"), "prompt");
  EXPECT_EQ(post(port, "/tokenize", {{"prompt", "x"}, {"model", "none"}}).status, 404);
  EXPECT_EQ(post(port, "/tokenize", {{"messages", "x"}}).error("param"), "messages");
  for (const char* field : {"tools", "documents", "chat_template_kwargs", "chat_template",
                            "add_generation_prompt", "continue_final_message"}) {
    json with = chat;
    with[field] = "x";
    EXPECT_EQ(post(port, "/tokenize", with).error("param"), field);
  }
  json opened = chat;
  opened["add_generation_prompt"] = true;
  EXPECT_GT(post(port, "/tokenize", opened).json()["count"], chat_tokens["count"]);
}

// Returns the value of the line that starts with `series`; NaN if there is none.
double metric(const std::string& text, const std::string& series) {
  const std::size_t at = ("\n" + text).find("\n" + series + " ");
  return at == std::string::npos ? NAN : std::stod(text.substr(at + series.size() + 1));
}

TEST_F(ApiTest, TellsPrometheusWhatRuns) {
  start();
  ASSERT_TRUE(service.load_adapter("poet", "/a/poet", false, false).ok());
  service.set_running("poet", 2);
  ASSERT_EQ(post(port, "/v1/completions", {{"prompt", "p"}}).status, 200);
  service.submit_status = Status(StatusCode::resource_exhausted, "full");
  ASSERT_EQ(post(port, "/v1/completions", {{"prompt", "p"}}).status, 429);
  get(port, "/v1/models/poet");
  for (int i = 0; i < 3; ++i) get(port, "/made/up/" + std::to_string(i));
  const auto response = get(port, "/metrics");
  EXPECT_EQ(response.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const std::string& text_of = response.body;
  const auto value = [&](const std::string& series) { return metric(text_of, series); };
  EXPECT_EQ(value("vllm:num_requests_running{model_name=\"base\"}"), 3);
  EXPECT_EQ(value("vllm:num_requests_waiting{model_name=\"base\"}"), 2);
  EXPECT_EQ(value("vllm:kv_cache_usage_perc{model_name=\"base\"}"), 0.25);
  EXPECT_EQ(value("vllm:prompt_tokens_total{model_name=\"base\"}"), 1234);
  EXPECT_EQ(value("vllm:generation_tokens_total{model_name=\"base\"}"), 567);
  EXPECT_EQ(value("vllm:num_preemptions_total{model_name=\"base\"}"), 4);
  const auto enqueued = [&](const std::string& when) {
    return value("tandem_steps_enqueued_total{model_name=\"base\",when=\"" + when + "\"}");
  };
  EXPECT_EQ(enqueued("at_once"), 6);
  EXPECT_EQ(enqueued("in_time"), 70);
  EXPECT_EQ(enqueued("late"), 8);
  EXPECT_EQ(value("tandem_enqueue_margin_seconds{model_name=\"base\"}"), 0.0005);
  const auto handoff = [&](const std::string& rest) { return value("tandem_handoff_" + rest); };
  EXPECT_EQ(handoff("cost_ratio{model_name=\"base\",of=\"link\"}"), 1.25);
  EXPECT_EQ(handoff("cost_ratio{model_name=\"base\",of=\"read_xa\"}"), 0.5);
  EXPECT_EQ(handoff("cost_lessons{model_name=\"base\",of=\"link\"}"), 9);
  EXPECT_EQ(handoff("lessons_total{model_name=\"base\"}"), 321);
  EXPECT_EQ(handoff("plan_situations{model_name=\"base\"}"), 7);
  EXPECT_EQ(handoff("worker_wake_seconds{model_name=\"base\"}"), 0.25);
  EXPECT_EQ(handoff("plans_total{model_name=\"base\",outcome=\"followed\"}"), 60);
  EXPECT_EQ(handoff("plans_total{model_name=\"base\",outcome=\"given_up\"}"), 5);
  EXPECT_EQ(value("tandem_pages{model_name=\"base\",state=\"adapters\"}"), 10);
  EXPECT_EQ(value("tandem_pages{model_name=\"base\",state=\"prefix_cache\"}"), 5);
  EXPECT_EQ(value("vllm:prefix_cache_queries_total{model_name=\"base\"}"), 99);
  EXPECT_EQ(value("vllm:prefix_cache_hits_total{model_name=\"base\"}"), 33);
  EXPECT_EQ(value("tandem_adapters{model_name=\"base\",tier=\"host\"}"), 1);
  EXPECT_GT(
      value("vllm:lora_requests_info{model_name=\"base\",max_lora=\"8\",running_lora_adapters="
            "\"poet\",waiting_lora_adapters=\"\"}"),
      1700000000);
  EXPECT_EQ(
      value("vllm:lora_adapter_loaded{model_name=\"base\",adapter_name=\"poet\",level=\"cpu\","
            "pinned=\"false\",rank=\"8\"}"),
      1);
  EXPECT_EQ(value("vllm:lora_adapter_load_seconds_count{model_name=\"base\"}"), 2);
  EXPECT_EQ(value("vllm:lora_adapter_load_seconds_sum{model_name=\"base\"}"), 0.75);
  EXPECT_EQ(value("vllm:time_to_first_token_seconds_count{model_name=\"base\"}"), 1);
  EXPECT_EQ(value("vllm:time_to_first_token_seconds_sum{model_name=\"base\"}"), 0.25);
  EXPECT_EQ(value("vllm:time_per_output_token_seconds_sum{model_name=\"base\"}"), 0.25);
  EXPECT_EQ(value("vllm:e2e_request_latency_seconds_sum{model_name=\"base\"}"), 0.5);
  EXPECT_EQ(value("vllm:request_success_total{model_name=\"base\",finished_reason=\"stop\"}"), 1);
  const auto of_request = [&](const char* series) {
    EXPECT_EQ(value("vllm:" + std::string(series) + "_count{model_name=\"base\"}"), 1) << series;
    return value("vllm:" + std::string(series) + "_sum{model_name=\"base\"}");
  };
  EXPECT_EQ(of_request("request_time_per_output_token_seconds"), 0.25);
  EXPECT_EQ(of_request("request_prompt_tokens"), 2);
  EXPECT_EQ(of_request("request_generation_tokens"), 2);
  EXPECT_EQ(of_request("request_prefill_time_seconds"), 0.125);
  EXPECT_EQ(of_request("request_decode_time_seconds"), 0.25);
  EXPECT_EQ(of_request("request_inference_time_seconds"), 0.375);
  EXPECT_EQ(value("vllm:cache_config_info{model_name=\"base\",block_size=\"16\","
                  "num_gpu_blocks=\"100\"}"),
            1);
  const auto up_to = [&](const char* series, const char* bound) {
    return value("vllm:" + std::string(series) + "_bucket{model_name=\"base\",le=\"" + bound +
                 "\"}");
  };
  EXPECT_EQ(up_to("inter_token_latency_seconds", "0.001"), 1);
  EXPECT_EQ(up_to("inter_token_latency_seconds", "0.005"), 2);
  EXPECT_EQ(up_to("inter_token_latency_seconds", "2.5"), 2);
  EXPECT_EQ(up_to("inter_token_latency_seconds", "+Inf"), 3);
  // The buckets reach far enough to distinguish waits of minutes and long prompts from longer
  // times.
  for (const char* series : {"time_to_first_token_seconds", "request_queue_time_seconds",
                             "request_prefill_time_seconds", "e2e_request_latency_seconds",
                             "request_inference_time_seconds", "request_decode_time_seconds"}) {
    EXPECT_EQ(up_to(series, "600"), 1) << series;
  }
  EXPECT_EQ(up_to("request_prompt_tokens", "1000000"), 1);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_count{model_name=\"base\"}"), 3);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_sum{model_name=\"base\"}"), 9.0045);
  EXPECT_EQ(up_to("iteration_tokens_total", "1"), 1);
  EXPECT_EQ(up_to("iteration_tokens_total", "16"), 2);
  EXPECT_EQ(value("vllm:iteration_tokens_total_sum{model_name=\"base\"}"), 10);
  std::istringstream all_lines(text_of);
  for (std::string line; std::getline(all_lines, line);) {
    EXPECT_TRUE(line.starts_with('#') || line.find("model_name=\"base\"") != std::string::npos)
        << line;
  }
  const auto requests = [&](const char* path, const char* method, int status) {
    return value("tandem_http_requests_total{model_name=\"base\",method=\"" + std::string(method) +
                 "\",path=\"" + path + "\",status=\"" + std::to_string(status) + "\"}");
  };
  EXPECT_EQ(requests("/v1/completions", "POST", 200), 1);
  EXPECT_EQ(requests("/v1/completions", "POST", 429), 1);
  EXPECT_EQ(requests("/v1/models/{id}", "GET", 200), 1);
  EXPECT_EQ(requests("other", "GET", 404), 3);  // the label never contains the client's text
}

TEST_F(ApiTest, DescribesEveryRouteAndEveryOption) {
  start();
  const json described = get(port, "/openapi.json").json();
  EXPECT_EQ(described["openapi"], "3.1.0");
  std::size_t operations = 0;
  for (const auto& [path, methods] : described["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, routes().size());
  const auto options_of = [&](const char* path) {
    return described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
                    ["properties"];
  };
  for (const RequestField& field : request_fields()) {
    if ((field.where & kCompletions) != 0) {
      EXPECT_TRUE(options_of("/v1/completions").contains(field.name)) << field.name;
    }
    if ((field.where & kChat) != 0) {
      EXPECT_TRUE(options_of("/v1/chat/completions").contains(field.name)) << field.name;
    }
  }
  for (const UnsupportedField& field : unsupported_fields()) {
    const char* path = (field.where & kChat) != 0          ? "/v1/chat/completions"
                       : (field.where & kCompletions) != 0 ? "/v1/completions"
                                                           : "/v1/rerank";
    const json said = options_of(path)[field.name]["description"];
    EXPECT_TRUE(said.is_string() && said.get<std::string>().starts_with("Not supported yet"))
        << field.name;
  }
  EXPECT_EQ(options_of("/v1/chat/completions")["suffix"]["enum"], json({"", nullptr}));
  EXPECT_EQ(options_of("/v1/completions")["temperature"]["maximum"], 2);
  EXPECT_EQ(options_of("/v1/completions")["repetition_penalty"]["exclusiveMinimum"], 0);
}

// Checks that objects of `answer` have exactly the fields in `schema`. The schema of a map's values
// (additionalProperties) or of a list's entries applies to all of them; fields in `sometimes` may
// be missing.
void check_described(const json& answer, const json& schema, const std::set<std::string>& sometimes,
                     const std::string& where = "") {
  SCOPED_TRACE(where);
  if (schema.contains("items") && schema["items"].contains("properties")) {
    EXPECT_FALSE(answer.empty());
    for (const json& each : answer) {
      check_described(each, schema["items"], sometimes, where + "[]");
    }
  } else if (schema.contains("additionalProperties")) {
    EXPECT_FALSE(answer.empty());
    for (const json& each : answer) {
      check_described(each, schema["additionalProperties"], sometimes, where + ".*");
    }
  } else if (schema.contains("properties")) {
    ASSERT_TRUE(answer.is_object());
    for (const auto& [name, value] : answer.items()) {
      EXPECT_TRUE(schema["properties"].contains(name)) << name;
    }
    for (const auto& [name, of] : schema["properties"].items()) {
      EXPECT_TRUE(answer.contains(name) || sometimes.contains(name)) << name;
      if (answer.contains(name)) check_described(answer[name], of, sometimes, where + "." + name);
    }
  } else if (schema.contains("type")) {
    const std::string type = schema["type"];
    EXPECT_TRUE(type == "integer"  ? answer.is_number_integer()
                : type == "number" ? answer.is_number()
                                   : answer.type_name() == type)
        << answer << " is no " << type;
  }
}

TEST_F(ApiTest, TellsOfRefusedAdaptersUntilTheirNamesAreServed) {
  refused_adapters = {{"poet", "/a/poet", "it is cut off"},
                      {"painter", "/a/painter", "it has a bias"}};
  start_with_root();
  const auto told = [&] { return get(port, "/v1/adapters").json()["refused"]; };
  const auto counted = [&] { return get(port, "/metrics").body; };
  ASSERT_EQ(told().size(), 2U);
  EXPECT_EQ(told()[0], json({{"name", "poet"}, {"path", "/a/poet"}, {"reason", "it is cut off"}}));
  EXPECT_NE(counted().find("tandem_adapters_refused{model_name=\"base\"} 2"), std::string::npos);
  ASSERT_EQ(load("poet", "good").status, 200);
  ASSERT_EQ(told().size(), 1U);
  EXPECT_EQ(told()[0]["name"], "painter");
  EXPECT_NE(counted().find("tandem_adapters_refused{model_name=\"base\"} 1"), std::string::npos);
}

TEST_F(ApiTest, DescribesWhatItTellsOfAdapters) {
  refused_adapters = {{"painter", "/a/painter", "it has a bias"}};
  start();
  ASSERT_TRUE(service.load_adapter("poet", "/a/poet", false, false).ok());
  const json described = get(port, "/openapi.json").json();
  const json schema = described["paths"]["/v1/adapters"]["get"]["responses"]["200"]["content"]
                               ["application/json"]["schema"];
  check_described(get(port, "/v1/adapters").json(), schema, {"by_size"});  // except for the link
}

}  // namespace
}  // namespace tandem
