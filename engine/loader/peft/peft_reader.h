// Reads the adapters that PEFT writes, in three ways: for the first time, from the folder alone;
// again, with a known digest, into memory that others already compute from; and for the first time
// into such memory, from a folder whose weights are still arriving.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/file/file.h"
#include "base/file/file_identity.h"
#include "base/file/file_progress.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_source.h"
#include "engine/loader/thread_team.h"

namespace tandem {

// Reads DIR/adapter_config.json and DIR/adapter_model.safetensors for a base of this shape, with
// weights converted to `dtype`. All or nothing. Refuses with the reason: pickle; DoRA; biases,
// modules and layers that the base does not have; shapes that do not fit, ranks outside 1..2048,
// tensors missing or left over, NaN or infinite weights. The bytes come from `allocate`, by default
// from the heap. For `now_ns` see FileIdentity::vouches. Messages do not contain DIR's path.
Result<Adapter> load_peft_adapter(const std::filesystem::path& dir, const ModelSpec& spec,
                                  DType dtype, const AllocateBytes& allocate = nullptr,
                                  std::int64_t now_ns = unix_now_ns(), const LinkRule& links = {});

struct RereadOutcome {
  bool same = false;    // the content equals that of the known adapter
  bool hashed = false;  // compared by digest, not by file identity
  // The source for the next read; null if the next read has to start without one.
  std::shared_ptr<const PeftSource> source;
};

// Rereads an adapter that load_peft_adapter() returned before, into `target`, which has
// known.num_bytes. The team's threads read in the order of the bytes, so that early layers are
// complete long before the last. One of them calls `layer_there(layer)` for each adapted layer when
// all its bytes are written.
//
// Files whose identity matches `source` before and after the read have the same contents.
// Otherwise, or if `source` is null, everything is read and compared by digest; a difference may
// then show only after every layer was reported. Refuses unreadable files as load_peft_adapter()
// does.
Result<RereadOutcome> reread_peft_adapter(const std::filesystem::path& dir, const ModelSpec& spec,
                                          const Adapter& known,
                                          const std::shared_ptr<const PeftSource>& source,
                                          ThreadTeam& team, std::byte* target,
                                          const std::function<void(std::size_t layer)>& layer_there,
                                          std::int64_t now_ns = unix_now_ns(),
                                          const LinkRule& links = {});

// Reads an adapter whose weights' file is still being written, in the order in which the bytes
// arrive, on the calling thread, which waits for them. `begin` is called with the adapter, without
// bytes and digest, as soon as the file's header has arrived, and returns the memory for its
// num_bytes. `layer_there(layer)` is called for each adapted layer when all its bytes are written.
// Returns the digest of the bytes that arrived, which may differ from the expected one. Refuses
// what load_peft_adapter() and `begin` refuse, and fails if `writing` fails.
Result<std::string> read_arriving_peft_adapter(
    const std::filesystem::path& dir, const ModelSpec& spec, DType dtype,
    std::shared_ptr<const FileProgress> writing,
    const std::function<Result<std::byte*>(const Adapter& layout)>& begin,
    const std::function<void(std::size_t layer)>& layer_there, const LinkRule& links = {});

// Whether matrices of the same shapes lie at the same offsets, and act on the same tokens.
bool same_layout(const Adapter& a, const Adapter& b);

}  // namespace tandem
