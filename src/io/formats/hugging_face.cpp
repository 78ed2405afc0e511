#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "io/checkpoint.h"
#include "io/json_text.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

using ReadFile = Checkpoint (*)(const fs::path&);
constexpr std::size_t kLargestJson = 256u << 20;

/// Python writes an infinite number as a word that JSON has not; transformers has begun to write an
/// object instead, which is put in its place.
std::string without_bare_infinities(std::string_view text) {
  constexpr std::string_view kWord = "Infinity", kObject = R"({"__float__":"Infinity"})";
  std::string spelled;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escapes = in_text && text[i] == '\\';
    if (text[i] == '"') in_text = !in_text;
    if (!in_text && text.substr(i).starts_with(kWord)) {
      spelled += kObject;
      i += kWord.size() - 1;
      continue;
    }
    spelled += text[i];
    if (escapes && i + 1 < text.size()) spelled += text[++i];
  }
  return spelled;
}

Json read_json_object(const fs::path& file) {
  const MappedFile mapped(file);
  const std::string doing = fmt::format("read {}", quote(file.string()));
  const auto bytes = mapped.bytes();
  if (bytes.size() > kLargestJson) {
    fail("{}: expected at most {} bytes of JSON, found {}", doing, kLargestJson, bytes.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool has_infinities = text.find("Infinity") != std::string_view::npos;
  Json json =
      has_infinities ? parse_json(without_bare_infinities(text), doing) : parse_json(text, doing);
  mapped.check_whole();
  if (!json.is_object()) fail("{}: expected an object, found {}", doing, json.type_name());
  return json;
}

// The tensor names that each shard must hold, by shard name.
using ShardTensors = std::map<std::string, std::set<std::string>>;

ShardTensors read_weight_map(const fs::path& index_file) {
  const std::string doing = fmt::format("read {}", quote(index_file.string()));
  const Json index = read_json_object(index_file);
  const auto weight_map = index.find("weight_map");
  if (weight_map == index.end() || !weight_map->is_object() || weight_map->empty()) {
    fail("{}: expected an object of file names as \"weight_map\"", doing);
  }
  ShardTensors shards;
  for (const auto& [tensor, file] : weight_map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    const bool plain = !name.empty() && name != "." && name != ".." &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      fail("{}: tensor {}: expected the name of a file in the same folder, found {}", doing,
           quote(tensor), quote(file.is_string() ? name : file.type_name()));
    }
    shards[name].insert(tensor);
  }
  return shards;
}

void append(Checkpoint& whole, Checkpoint&& shard) {
  std::ranges::move(shard.tensors, std::back_inserter(whole.tensors));
  std::ranges::move(shard.files, std::back_inserter(whole.files));
  std::ranges::move(shard.owned, std::back_inserter(whole.owned));
}

void append_shards(Checkpoint& whole, const fs::path& index_file, ReadFile read) {
  for (const auto& [file, names] : read_weight_map(index_file)) {
    Checkpoint shard = read(index_file.parent_path() / file);
    std::set<std::string_view> present;
    for (const StoredTensor& tensor : shard.tensors) present.insert(tensor.name);
    for (const std::string& name : names) {
      if (!present.contains(name)) {
        fail("read {}: tensor {}: expected it in {}, as the index says, found no such tensor there",
             quote(index_file.string()), quote(name), quote(file));
      }
    }
    append(whole, std::move(shard));
  }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

Checkpoint read_hugging_face(const fs::path& folder) {
  const std::string doing = fmt::format("open model folder {}", quote(folder.string()));
  const fs::path config = folder / "config.json";
  if (!is_there(config)) fail("{}: expected a config.json in it, found none", doing);
  Checkpoint checkpoint{.format = CheckpointFormat::hugging_face,
                        .path = folder,
                        .metadata = read_json_object(config),
                        .tensors = {},
                        .files = {},
                        .owned = {}};
  const fs::path beside = folder / "hf_quant_config.json";
  if (!checkpoint.metadata.contains("quantization_config") && is_there(beside)) {
    checkpoint.metadata["hf_quant_config"] = read_json_object(beside);
  }
  const struct {
    const char* file;
    bool sharded;
    ReadFile read;
  } kinds[] = {{"model.safetensors", false, read_safetensors},
               {"model.safetensors.index.json", true, read_safetensors},
               {"pytorch_model.bin", false, read_torch_bin},
               {"pytorch_model.bin.index.json", true, read_torch_bin},
               {"medusa_lm_head.safetensors", false, read_safetensors},
               {"medusa_lm_head.pt", false, read_torch_bin}};
  for (const auto& kind : kinds) {
    const fs::path file = folder / kind.file;
    if (!is_there(file)) continue;
    if (kind.sharded) {
      append_shards(checkpoint, file, kind.read);
    } else {
      append(checkpoint, kind.read(file));
    }
    refuse_duplicate_names(checkpoint.tensors, doing);
    return checkpoint;
  }
  fail("{}: expected model.safetensors or pytorch_model.bin, whole or with an index, found neither",
       doing);
}

}  // namespace talon
