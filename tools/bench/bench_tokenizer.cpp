// tandem bench tokenizer: encoding speed on one core, over files of real text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/tokenizer/tokenizer.h"
#include "tools/bench/bench_tokenizer.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/common/command_line.h"
#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const CommandInfo kInfo{
    "bench tokenizer", "--model DIR [flags]",
    "Encodes files of text, one after another, on one thread, and compares with the bar. Before\n"
    "that, each file's tokens must decode to the file again (or, where the tokenizer normalises,\n"
    "to a text with the same tokens).",
    "  tandem bench tokenizer --model tests/data/demo-llama --text /usr/include"};

struct TokenizerBenchSettings {
  std::string model;
  std::string text = "/usr/include";
  double megabytes = 16;
  std::int64_t rounds = 5;
};

struct Corpus {
  std::vector<std::string> documents;
  std::size_t bytes = 0;
};

// Reads files that the tokenizer accepts (valid UTF-8), in the order of their paths, up to `limit`
// bytes.
Result<Corpus> read_corpus(const std::string& path, std::size_t limit, const Tokenizer& tokenizer) {
  std::vector<fs::path> files;
  std::error_code failure;
  if (fs::is_regular_file(path, failure)) {
    files.emplace_back(path);
  } else {
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator entry(path, options, failure), end;
         !failure && entry != end; entry.increment(failure)) {
      std::error_code ignored;
      if (entry->is_regular_file(ignored)) files.push_back(entry->path());
    }
    if (failure) return error(StatusCode::not_found, "text: {}: {}", path, failure.message());
    std::sort(files.begin(), files.end());
  }
  Corpus corpus;
  for (const fs::path& file : files) {
    if (corpus.bytes >= limit) break;
    std::ifstream in(file, std::ios::binary);
    std::string text(std::min<std::size_t>(limit - corpus.bytes, std::size_t{1} << 20), '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    // Drops a character that the limit cut, because it would make the whole file invalid.
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80U) != 0) text.pop_back();
    if (text.empty() || !tokenizer.encode(text, false)) continue;
    corpus.bytes += text.size();
    corpus.documents.push_back(std::move(text));
  }
  if (corpus.documents.empty()) {
    return error(StatusCode::not_found, "text: no UTF-8 text in {}; name a file or folder of text",
                 path);
  }
  return corpus;
}

Status check_round_trips(const Corpus& corpus, const Tokenizer& tokenizer, BenchReport& report) {
  std::size_t exact = 0;
  std::size_t tokens = 0;
  for (const std::string& text : corpus.documents) {
    TANDEM_ASSIGN(const auto ids, tokenizer.encode(text, false));
    tokens += ids.size();
    const std::string back = tokenizer.decode(ids, false);
    if (back == text) {
      ++exact;
      continue;
    }
    TANDEM_ASSIGN(const auto again, tokenizer.encode(back, false));
    if (again != ids) {
      return error(StatusCode::internal,
                   "a text of {} bytes does not survive encoding: nothing was timed", text.size());
    }
  }
  report.fact("texts", fmt::format("{}, {}; {} decode to themselves", corpus.documents.size(),
                                   bytes_text(static_cast<double>(corpus.bytes)), exact));
  report.fact("bytes per token", fmt::format("{:.2f}", static_cast<double>(corpus.bytes) /
                                                           static_cast<double>(tokens)));
  return {};
}

Result<int> bench_tokenizer(const TokenizerBenchSettings& settings, const ReportSettings& reporting,
                            const std::string& command) {
  TANDEM_ASSIGN(const auto tokenizer, Tokenizer::load(settings.model));
  TANDEM_ASSIGN(
      const Corpus corpus,
      read_corpus(settings.text, static_cast<std::size_t>(settings.megabytes * 1e6), *tokenizer));
  BenchReport report("tokenizer", command);
  TANDEM_TRY(check_round_trips(corpus, *tokenizer, report));
  const SteadyClock clock;
  Samples encode{"encode, one thread", "MB/min", {}};
  Samples decode{"decode, one thread", "MB/min", {}};
  for (std::int64_t round = 0; round < settings.rounds; ++round) {
    double encoding = 0;
    double decoding = 0;
    for (const std::string& text : corpus.documents) {
      const TimePoint start = clock.now();
      TANDEM_ASSIGN(const auto ids, tokenizer->encode(text, false));
      const TimePoint encoded = clock.now();
      const std::string back = tokenizer->decode(ids, false);
      encoding += seconds_between(start, encoded);
      decoding += seconds_between(encoded, clock.now());
    }
    encode.values.push_back(static_cast<double>(corpus.bytes) / 1e6 / encoding * 60);
    decode.values.push_back(static_cast<double>(corpus.bytes) / 1e6 / decoding * 60);
  }
  report.add(encode);
  report.add(decode);
  report.add({"H6", "encoding on one core", encode.median(), "MB/min", Must::be_at_least, 200});
  return report.finish(reporting);
}

}  // namespace

int run_bench_tokenizer(const std::vector<std::string>& args) {
  TokenizerBenchSettings settings;
  ReportSettings reporting;
  SettingsTable table;
  add_report_settings(table, reporting);
  table.group("Benchmark");
  table.add(settings.model, "model", "folder with a tokenizer.json").meta("DIR").required();
  table.add(settings.text, "text", "text file, or folder whose files are read")
      .meta("PATH")
      .flag_only();
  table.add(settings.megabytes, "megabytes", "most text to read, in megabytes")
      .range(0.01, 4096)
      .flag_only();
  table.add(settings.rounds, "rounds", "passes over the text").range(1, 1000).flag_only();
  if (const auto status = read_settings(kInfo, table, args)) return *status;
  const Result<int> status =
      bench_tokenizer(settings, reporting, bench_command_line("tokenizer", args));
  return status ? *status : report_failure(kInfo, status.status());
}

}  // namespace tandem
