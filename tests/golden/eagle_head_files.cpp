#include "eagle_head_files.h"

#include <cstring>

#include "golden_data.h"

namespace talon {
namespace {

const char* dtype_of(StorageType type) {
  switch (type) {
    case StorageType::i64:
      return "I64";
    case StorageType::boolean:
      return "BOOL";
    default:
      return "F32";
  }
}

}  // namespace

HeadFiles HeadFiles::read(const std::string& golden_head) {
  const Checkpoint checkpoint =
      open_checkpoint(std::string(TALON_TEST_DATA) + "/golden/stories260k/" + golden_head);
  HeadFiles files;
  files.config = checkpoint.metadata;
  for (const StoredTensor& tensor : checkpoint.tensors) {
    std::string bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    files.tensors[tensor.name] = {dtype_of(tensor.type), tensor.shape, std::move(bytes)};
  }
  return files;
}

void HeadFiles::rename(const std::string& from, const std::string& to) {
  tensors[to] = tensors.at(from);
  tensors.erase(from);
}

void HeadFiles::rename_prefix(const std::string& from, const std::string& to) {
  std::map<std::string, Tensor> renamed;
  for (const auto& [name, tensor] : tensors) {
    renamed[name.starts_with(from) ? to + name.substr(from.size()) : name] = tensor;
  }
  tensors = std::move(renamed);
}

void HeadFiles::add(const std::string& name, const std::vector<std::int64_t>& shape,
                    const std::vector<float>& values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  tensors[name] = {"F32", shape, std::move(bytes)};
}

void HeadFiles::write(const test::TemporaryFolder& folder) const {
  Json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  folder.add("config.json", config.dump());
  folder.add("model.safetensors", test::safetensors_file(header.dump(), data).bytes);
}

std::vector<float> HeadFiles::values(const std::string& name) const {
  const std::string& bytes = tensors.at(name).bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Checkpoint golden_target() {
  return open_checkpoint(std::string(TALON_TEST_DATA) + "/golden/stories260k/target");
}

std::vector<float> target_embedding() {
  const Checkpoint target = golden_target();
  const StoredTensor& table = target.require("model.embed_tokens.weight");
  std::vector<float> values(table.bytes.size() / sizeof(float));
  std::memcpy(values.data(), table.bytes.data(), table.bytes.size());
  return values;
}

}  // namespace talon
