// Reading the adapters that PEFT writes: for the first time, when nothing is known but the folder;
// again, when it is known what must come out, into memory from which others already compute; and
// for the first time into such memory, from a folder whose weights are still on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/file_identity.h"
#include "base/file_progress.h"
#include "base/status.h"
#include "engine/loader/adapter.h"
#include "engine/loader/peft/peft_source.h"
#include "engine/loader/thread_team.h"

namespace tandem {

// Reads DIR/adapter_config.json and DIR/adapter_model.safetensors for a base of this shape, with
// weights converted to `dtype`. All or nothing. Refuses with the reason: pickle, DoRA, bias,
// modules_to_save, embedding or head LoRA, modules or layers the base does not have, shapes that do
// not fit, ranks outside 1..512, tensors missing or left over, NaN or infinite weights. The bytes
// come from `allocate`, by default from the heap. `now_ns`: see FileIdentity::vouches. Messages do
// not tell where DIR is.
Result<Adapter> load_peft_adapter(const std::filesystem::path& dir, const ModelSpec& config,
                                  DType dtype, const AllocateBytes& allocate = nullptr,
                                  std::int64_t now_ns = unix_now_ns(), const LinkRule& links = {});

struct RereadOutcome {
  bool same = false;    // the content is that of the adapter that was known
  bool hashed = false;  // by its digest, and not by its files being the same
  // What to read it from the next time; null: from nothing known.
  std::shared_ptr<const PeftSource> source;
};

// Reads an adapter again that load_peft_adapter() gave before, into `target`, known.num_bytes of
// it: by the team's threads, in the order of the bytes, so that a layer is there long before the
// last. `layer_there(layer)` is called on one of them for each adapted layer, when all its bytes
// are written.
//
// Files that are those of `source` before and after have the same contents. All others, and where
// `source` is null, are read anew, and known by their digest; that they are not the same may show
// only after every layer was there. Refuses what cannot be read, as load_peft_adapter() does.
Result<RereadOutcome> reread_peft_adapter(const std::filesystem::path& dir, const ModelSpec& config,
                                          const Adapter& known,
                                          const std::shared_ptr<const PeftSource>& source,
                                          ThreadTeam& team, std::byte* target,
                                          const std::function<void(std::size_t layer)>& layer_there,
                                          std::int64_t now_ns = unix_now_ns(),
                                          const LinkRule& links = {});

// Reads an adapter whose weights' file is still being written, in the order in which they come: on
// the calling thread, which waits for them. `begin` is told the adapter without bytes and digest as
// soon as the file's header is there, and says where its num_bytes shall go. `layer_there(layer)`
// is called for each adapted layer when all its bytes are written there. Returns the digest of what
// came, which may be another than it should have been. Refuses as load_peft_adapter() does, and
// what `begin` refuses, and fails as `writing` does.
Result<std::string> read_arriving_peft_adapter(
    const std::filesystem::path& dir, const ModelSpec& config, DType dtype,
    std::shared_ptr<const FileProgress> writing,
    const std::function<Result<std::byte*>(const Adapter& layout)>& begin,
    const std::function<void(std::size_t layer)>& layer_there, const LinkRule& links = {});

// Whether matrices of the same shapes lie at the same places.
bool same_layout(const Adapter& a, const Adapter& b);

}  // namespace tandem
