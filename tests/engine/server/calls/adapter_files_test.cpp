// GET /v1/adapters/{digest}/{file}, by which engines send each other adapters.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/server/cluster/file_sender.h"
#include "tests/engine/server/server_fixture.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const std::string kDigest = "c62b3fa7636382bf2f35a8bbcd62fdb1";
const std::string kWeights = "/v1/adapters/" + kDigest + "/adapter_model.safetensors";

class AdapterFilesTest : public ServerTest {
 protected:
  void start_with(std::size_t bytes) {
    contents.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) contents[i] = static_cast<char>(i * 2654435761U >> 13);
    path = dir.write("weights", contents);
    service.open_file = [this](const std::string& digest,
                               std::string_view file) -> Result<AdapterFile> {
      asked.emplace_back(file);
      if (digest != kDigest || file != "adapter_model.safetensors") {
        return error(StatusCode::not_found, "no such file");
      }
      TANDEM_ASSIGN(File opened, File::open(path));
      TANDEM_ASSIGN(const FileIdentity identity, opened.identity());
      return AdapterFile{std::move(opened), identity};
    };
    start();
  }

  testing::TempDir dir;
  fs::path path;
  std::string contents;
  std::vector<std::string> asked;
};

TEST_F(AdapterFilesTest, AreSentWhole) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{131072}, (std::size_t{3} << 20) + 7}) {
    start_with(bytes);
    const auto response = get(port, kWeights);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.headers.at("content-length"), std::to_string(bytes));
    EXPECT_EQ(response.headers.at("content-type"), "application/octet-stream");
    EXPECT_TRUE(response.body == contents) << bytes;
  }
}

TEST_F(AdapterFilesTest, AreAskedForByDigestAlone) {
  options.api_key = "key";
  start_with(100);
  EXPECT_EQ(get(port, kWeights).status, 401);
  const std::string key = "Authorization: Bearer key\r\n";
  EXPECT_EQ(get(port, kWeights, key).status, 200);
  asked.clear();
  for (const std::string& digest :
       {std::string("python"), std::string(), std::string("..%2f.."), kDigest.substr(1),
        kDigest + "0", std::string(32, 'G'), std::string("%2e%2e/") + kDigest}) {
    EXPECT_EQ(get(port, "/v1/adapters/" + digest + "/adapter_config.json", key).status, 404)
        << digest;
  }
  EXPECT_TRUE(asked.empty());
  for (const std::string& file :
       {std::string(), std::string("x"), std::string("../secret"), std::string("%2fetc/passwd"),
        std::string("adapter_model.safetensors/")}) {
    EXPECT_EQ(get(port, "/v1/adapters/" + kDigest + "/" + file, key).status, 404) << file;
  }
  EXPECT_EQ(
      get(port, "/v1/adapters/" + std::string(32, '0') + "/adapter_model.safetensors", key).status,
      404);
  EXPECT_EQ(post(port, kWeights, {}, key).status, 405);
}

TEST_F(AdapterFilesTest, BreakWhenTheyChangeWhileTheyAreSent) {
  start_with(std::size_t{12} << 20);
  TestClient client(port, 4096);
  client.send(http_request("GET", kWeights));
  EXPECT_EQ(client.receive_head().status, 200);
  fs::permissions(path, fs::perms::owner_read);  // changes its ctime
  EXPECT_LT(client.rest().size(), contents.size());
}

TEST_F(AdapterFilesTest, AreSentToAFewAtATime) {
  start_with(std::size_t{12} << 20);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < FileSender::kMostAtOnce; ++i) {
    clients.push_back(std::make_unique<TestClient>(port, 4096));
    clients.back()->send(http_request("GET", kWeights));
    ASSERT_EQ(clients.back()->receive_head().status, 200);
  }
  const auto refused = get(port, kWeights);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.error("code"), "overloaded");
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  clients.pop_back();  // the server notices the disconnection a moment later
  int status = 503;
  for (int attempt = 0; attempt < 20000 && status == 503; ++attempt) {
    TestClient next(port, 4096);
    next.send(http_request("GET", kWeights));
    status = next.receive_head().status;
  }
  EXPECT_EQ(status, 200);
}

}  // namespace
}  // namespace tandem
