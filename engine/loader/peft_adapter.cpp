// Reading a PEFT adapter, all of it at once.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/loader/adapter.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/parallel.h"
#include "engine/loader/peft_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

Status fill_all(const PeftFolder& folder, Adapter& adapter) {
  // Less than this is read faster than a thread starts.
  constexpr std::size_t kBytesPerThread = 2 << 20;
  const std::vector<PeftJob>& jobs = folder.jobs();
  const std::size_t chunk =
      std::max<std::size_t>(1, jobs.size() * kBytesPerThread / adapter.num_bytes);
  std::vector<Status> results(jobs.size());
  parallel_chunks(jobs.size(), std::min(chunk, jobs.size()),
                  [&](std::size_t begin, std::size_t end) {
                    PeftScratch scratch;
                    for (std::size_t i = begin; i < end; ++i) {
                      results[i] = folder.fill(jobs[i], adapter.bytes.get(), scratch);
                      if (results[i].ok()) {
                        results[i] = folder.check_finite(jobs[i], adapter.bytes.get());
                      }
                    }
                  });
  for (const Status& result : results) TANDEM_TRY(result);
  return {};
}

}  // namespace

Result<Adapter> load_peft_adapter(const fs::path& dir, const ModelConfig& config, DType dtype,
                                  const AllocateBytes& allocate, std::int64_t now_ns) {
  TANDEM_ASSIGN(const PeftFolder folder, PeftFolder::open(dir, config, dtype));
  Adapter adapter = folder.adapter();
  TANDEM_TRY(allocate_bytes(adapter, allocate));
  TANDEM_TRY(fill_all(folder, adapter));
  TANDEM_TRY(set_digest(adapter));
  adapter.source = folder.source(now_ns);
  return adapter;
}

}  // namespace tandem
