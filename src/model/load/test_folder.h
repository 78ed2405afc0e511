#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "model/load/tensor_loader.h"

namespace talon {

/// A folder in memory whose tensors a test writes down, and what its loader makes of them.
class FolderOfParts : public testing::Test {
 protected:
  template <typename T>
  void add(const std::string& name, StorageType type, std::vector<std::int64_t> shape,
           const std::vector<T>& values) {
    auto& bytes = bytes_.emplace_back(values.size() * sizeof(T));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    folder_.tensors.push_back({name, type, std::move(shape), bytes});
  }
  void add_text(const std::string& name, const std::string& text) {
    add(name, StorageType::u8, {static_cast<std::int64_t>(text.size())},
        std::vector<char>(text.begin(), text.end()));
  }
  void say(const Json& quantization) { folder_.metadata["quantization_config"] = quantization; }

  /// Of the matrix "a.weight".
  std::vector<float> values(int rows, int cols) {
    return values("a.weight", {.rows = rows, .cols = cols});
  }
  std::vector<float> values(const std::string& name, const StackedMatrix& place) {
    TensorLoader loader(folder_, *backend_, options_);
    const StoredMatrix matrix = loader.stored_matrix(name, place);
    std::vector<float> values(static_cast<std::size_t>(place.rows * place.cols));
    dequantize(matrix.type, matrix.bytes, values);
    return values;
  }
  std::string refusal(int rows, int cols) {
    return refusal("a.weight", {.rows = rows, .cols = cols});
  }
  std::string refusal(const std::string& name, const StackedMatrix& place) {
    try {
      values(name, place);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  /// Refused with a message that holds each of `texts`.
  void expect_refused(int rows, int cols, const std::vector<std::string>& texts) {
    expect_holds(refusal(rows, cols), texts);
  }
  static void expect_holds(const std::string& message, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      EXPECT_NE(message.find(text), std::string::npos) << text << ": " << message;
    }
  }

  StoredTensor& tensor(const std::string& name) {
    for (StoredTensor& found : folder_.tensors) {
      if (found.name == name) return found;
    }
    throw Bug("no tensor " + name);
  }
  void remove(const std::string& name) {
    std::erase_if(folder_.tensors, [&](const StoredTensor& t) { return t.name == name; });
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend(1);
  LoadOptions options_;
  Checkpoint folder_{.format = CheckpointFormat::hugging_face,
                     .path = "folder",
                     .metadata = Json::object(),
                     .tensors = {},
                     .files = {},
                     .owned = {}};
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace talon
