#include "tools/bench/coldstart/cold_adapters.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/file/file_identity.h"
#include "base/file/folder.h"
#include "engine/loader/peft/peft_config.h"
#include "engine/loader/thread_team.h"
#include "tools/bench/measure/bench_adapters.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const char* safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    default:
      return "BF16";
  }
}

struct Tensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // elements between rows
  const std::byte* data = nullptr;
};

std::vector<Tensor> tensors_of(const Adapter& adapter, const ModelSpec& spec) {
  std::vector<Tensor> tensors;
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    const auto number = static_cast<std::int64_t>(layer);
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      const AdapterMatrix& matrix = adapter.layers[layer][module];
      if (matrix.rank == 0) continue;
      const std::string path = "base_model.model." + module_path(spec, number, module);
      const std::int64_t in = module_in(spec, number, module);
      tensors.push_back(
          {path + ".lora_A.weight", matrix.rank, in, in, adapter.bytes.get() + matrix.a_offset});
      tensors.push_back({path + ".lora_B.weight", module_out(spec, number, module), matrix.rank,
                         matrix.b_stride, adapter.bytes.get() + matrix.b_offset});
    }
  }
  return tensors;
}

}  // namespace

Result<ScratchFolder> ScratchFolder::create() {
  std::error_code failure;
  const fs::path given = fs::temp_directory_path(failure);
  if (failure) return error(StatusCode::not_found, "no temporary folder: {}", failure.message());
  TANDEM_ASSIGN(const fs::path base, resolve_links(given));
  std::string name = (base / "tandem-coldstart-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return errno_status("mkdtemp " + name, errno);
  return ScratchFolder(name);
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Status write_peft_folder(const fs::path& folder, const Adapter& adapter, const ModelSpec& spec) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) return error(StatusCode::internal, "{}: {}", folder.string(), failure.message());
  const nlohmann::json peft = {{"peft_type", "LORA"},
                               {"r", adapter.max_rank},
                               {"lora_alpha", adapter.max_rank},
                               {"target_modules", adapter.modules},
                               {"base_model_name_or_path", "dummy"}};
  const auto size = static_cast<std::int64_t>(size_of(adapter.dtype));
  const std::vector<Tensor> tensors = tensors_of(adapter, spec);
  nlohmann::json header = nlohmann::json::object();
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    const std::int64_t bytes = tensor.rows * tensor.columns * size;
    header[tensor.name] = {{"dtype", safetensors_name(adapter.dtype)},
                           {"shape", {tensor.rows, tensor.columns}},
                           {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  errno = 0;
  std::ofstream(folder / "adapter_config.json") << peft.dump(2) << '\n';
  const fs::path path = folder / "adapter_model.safetensors";
  std::ofstream file(path, std::ios::binary);
  for (unsigned i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> (8 * i) & 0xff));
  file << text;
  for (const Tensor& tensor : tensors) {
    for (std::int64_t row = 0; row < tensor.rows; ++row) {
      file.write(reinterpret_cast<const char*>(tensor.data + row * tensor.stride * size),
                 tensor.columns * size);
    }
  }
  file.close();
  if (!file) return errno_status(path.string(), errno);
  return {};
}

const Adapter& ColdAdapters::contents(std::int32_t rank, std::size_t index) {
  std::vector<Adapter>& made = made_[rank];
  if (made.empty()) {
    made.resize(kContents);
    parallel_chunks(kContents, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        made[i] = make_dummy_adapter(spec_, dtype_, rank, qkv_modules(), i + 1);
      }
    });
  }
  return made[index % kContents];
}

Result<std::vector<std::string>> ColdAdapters::folders(std::int32_t rank) {
  std::vector<std::string>& written = written_[rank];
  if (!written.empty()) return written;
  if (scratch_.empty()) {
    TANDEM_ASSIGN(ScratchFolder scratch, ScratchFolder::create());
    scratch_.push_back(std::move(scratch));
  }
  std::vector<std::string> folders;
  for (std::size_t i = 0; i < kContents; ++i) {
    const fs::path folder = scratch_.front().path() / fmt::format("r{}-{}", rank, i);
    TANDEM_TRY(write_peft_folder(folder, contents(rank, i), spec_));
    folders.push_back(folder.string());
  }
  // A new file's identity is trusted only after kSettled; until then, each read would include
  // hashing the file.
  ::sync();
  std::this_thread::sleep_for(FileIdentity::kSettled);
  written = folders;
  return folders;
}

std::size_t ColdAdapters::host_tier_bytes(std::int64_t count, std::int32_t rank) const {
  const std::vector<DummyAdapter> all(static_cast<std::size_t>(count),
                                      DummyAdapter{"", rank, qkv_modules()});
  return host_tier_bytes_for(spread_, dtype_, all);
}

}  // namespace tandem
