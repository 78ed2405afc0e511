#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/scratch_folder.h"
#include "io/atomic_file.h"
#include "io/checkpoint.h"

/// Small valid model files for tests, made in memory, with a note of where each number stands so
/// that tests can break it.
namespace talon::test {

/// A little-endian number in a file.
struct Field {
  std::string name;
  std::size_t offset;
  std::size_t width;
};

/// A file being written; put() notes each number as a field.
struct TestFile {
  std::string bytes;
  std::vector<Field> fields;

  template <typename T>
  void put(std::string name, T value) {
    static_assert(std::is_arithmetic_v<T>);
    fields.push_back({std::move(name), bytes.size(), sizeof(T)});
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void put_text(std::string_view text) { bytes += text; }
  /// A 64-bit size, then the text.
  void put_sized(const std::string& name, std::string_view text) {
    put<std::uint64_t>(name + " size", text.size());
    put_text(text);
  }
  void pad_to(std::size_t multiple) {
    while (bytes.size() % multiple != 0) bytes += '\0';
  }
  /// Appends the other file, its fields included.
  void put_file(const TestFile& other) {
    for (Field field : other.fields) {
      field.offset += bytes.size();
      fields.push_back(std::move(field));
    }
    bytes += other.bytes;
  }
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// `count` bytes that differ from their neighbours.
inline std::string test_data(std::size_t count) {
  std::string data;
  for (std::size_t i = 0; i < count; ++i) data += static_cast<char>(i * 37 + 11);
  return data;
}

struct GgufTensor {
  std::string name;
  std::vector<std::uint64_t> dimensions;  // innermost first, as in the file
  std::uint32_t type;
  std::uint64_t offset;
};

/// A GGUF file of the parts given; the caller answers for whether they fit together.
struct GgufParts {
  std::uint32_t version = 3;
  TestFile values;  // what follows the counts
  std::uint64_t value_count = 0;
  std::vector<GgufTensor> tensors;
  std::size_t alignment = 32;
  std::string data;

  template <typename T>
  void add_value(const std::string& key, std::uint32_t type, T value) {
    add_key(key, type);
    values.put("value " + key, value);
  }
  void add_text(const std::string& key, std::string_view text) {
    add_key(key, 8);
    values.put_sized("text " + key, text);
  }
  /// The elements must be put next.
  void add_array(const std::string& key, std::uint32_t type, std::uint64_t count) {
    add_key(key, 9);
    values.put<std::uint32_t>("element type " + key, type);
    values.put<std::uint64_t>("element count " + key, count);
  }
  void add_key(const std::string& key, std::uint32_t type) {
    values.put_sized("key " + key, key);
    values.put<std::uint32_t>("type " + key, type);
    ++value_count;
  }

  TestFile build() const {
    TestFile file;
    file.put_text("GGUF");
    file.put<std::uint32_t>("version", version);
    file.put<std::uint64_t>("tensor count", tensors.size());
    file.put<std::uint64_t>("value count", value_count);
    file.put_file(values);
    for (const GgufTensor& tensor : tensors) {
      file.put_sized("tensor name", tensor.name);
      file.put<std::uint32_t>("dimension count",
                              static_cast<std::uint32_t>(tensor.dimensions.size()));
      for (const std::uint64_t size : tensor.dimensions) file.put<std::uint64_t>("dimension", size);
      file.put<std::uint32_t>("tensor type", tensor.type);
      file.put<std::uint64_t>("tensor offset", tensor.offset);
    }
    file.pad_to(alignment);
    file.put_text(data);
    return file;
  }
};

/// Every value type, and tensors "f32" [3, 2], "q4_1" [2, 32], "f16" [5].
inline GgufParts small_gguf() {
  GgufParts parts;
  parts.add_text("general.architecture", "llama");
  parts.add_value<std::uint8_t>("u8", 0, 200);
  parts.add_value<std::int8_t>("i8", 1, -100);
  parts.add_value<std::uint16_t>("u16", 2, 60000);
  parts.add_value<std::int16_t>("i16", 3, -30000);
  parts.add_value<std::uint32_t>("u32", 4, 4000000000u);
  parts.add_value<std::int32_t>("i32", 5, -2000000000);
  parts.add_value<float>("f32", 6, 1.5f);
  parts.add_value<std::uint8_t>("bool", 7, 1);
  parts.add_value<std::uint64_t>("u64", 10, std::uint64_t{1} << 63);
  parts.add_value<std::int64_t>("i64", 11, -(std::int64_t{1} << 62));
  parts.add_value<double>("f64", 12, 0.1);
  parts.add_array("texts", 8, 2);
  parts.values.put_sized("element", "\xC4\xA0the");
  parts.values.put_sized("element", std::string_view("\xFF\0", 2));
  parts.add_array("nested", 9, 2);
  for (std::uint16_t i = 0; i < 2; ++i) {
    parts.values.put<std::uint32_t>("inner type", 2);
    parts.values.put<std::uint64_t>("inner count", 2);
    parts.values.put<std::uint16_t>("inner element", i);
    parts.values.put<std::uint16_t>("inner element", 7);
  }
  parts.tensors = {{"f32", {2, 3}, 0, 0}, {"q4_1", {32, 2}, 3, 32}, {"f16", {5}, 1, 96}};
  parts.data = test_data(106);
  return parts;
}

/// `header` is JSON text.
inline TestFile safetensors_file(std::string_view header, std::string_view data) {
  TestFile file;
  file.put<std::uint64_t>("header size", header.size());
  file.put_text(header);
  file.put_text(data);
  return file;
}

inline constexpr std::string_view kSmallSafetensorsHeader =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]},)"
    R"("a":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},)"
    R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[30,38]}})";

/// Tensors "a" [3, 2], "b" [3] and "scalar" [].
inline TestFile small_safetensors() {
  return safetensors_file(kSmallSafetensorsHeader, test_data(38));
}

/// The opcodes of a pickle, by what torch.save does with them.
class PickleWriter {
 public:
  PickleWriter() { file_.put_text("\x80\x02"); }

  PickleWriter& op(std::string_view opcodes) {
    file_.put_text(opcodes);
    return *this;
  }
  PickleWriter& global(const std::string& module, const std::string& name) {
    return op("c" + module + "\n" + name + "\n");
  }
  PickleWriter& text(std::string_view text) {
    op("X");
    file_.put<std::uint32_t>("text size", static_cast<std::uint32_t>(text.size()));
    return op(text);
  }
  PickleWriter& number(std::string name, std::int32_t value) {
    op("J");
    file_.put<std::int32_t>(std::move(name), value);
    return *this;
  }
  PickleWriter& numbers(const std::string& name, const std::vector<std::int32_t>& values) {
    op("(");
    for (const std::int32_t value : values) number(name, value);
    return op("t");
  }
  PickleWriter& begin_dict() { return global("collections", "OrderedDict").op(")R"); }
  PickleWriter& tensor(std::string_view storage_class, std::string_view key, std::int32_t elements,
                       std::int32_t offset, const std::vector<std::int32_t>& shape,
                       const std::vector<std::int32_t>& strides) {
    global("torch._utils", "_rebuild_tensor_v2").op("((").text("storage");
    global("torch", std::string(storage_class)).text(key).text("cpu");
    number("storage elements", elements).op("tQ").number("storage offset", offset);
    numbers("dimension", shape).numbers("stride", strides);
    return op("\x89").begin_dict().op("tR");  // requires_grad, no hooks
  }
  TestFile end_dict() { return op("u.").file_; }
  TestFile file() const { return file_; }

 private:
  TestFile file_;
};

struct ZipPart {
  std::string name;
  TestFile content;
};

/// A zip archive of stored entries as torch writes it; with `zip64`, sizes and offsets stand in the
/// wide records.
inline TestFile zip_file(const std::vector<ZipPart>& parts, bool zip64 = false) {
  TestFile file;
  TestFile directory;
  for (const ZipPart& part : parts) {
    const std::size_t offset = file.bytes.size();
    const auto size = static_cast<std::uint32_t>(part.content.bytes.size());
    const auto put_common = [&](TestFile& to) {
      to.put<std::uint16_t>("version needed", 0);
      to.put<std::uint16_t>("flags", 0x0808);
      to.put<std::uint16_t>("method", 0);
      to.put<std::uint32_t>("time", 0);
      to.put<std::uint32_t>("checksum", 0);
    };
    file.put<std::uint32_t>("local signature", 0x04034B50);
    put_common(file);
    file.put<std::uint32_t>("local compressed size", 0);  // follows the data, as the flags say
    file.put<std::uint32_t>("local size", 0);
    file.put<std::uint16_t>("local name size", static_cast<std::uint16_t>(part.name.size()));
    file.put<std::uint16_t>("local extra size", 4);
    file.put_text(part.name);
    file.put_text(std::string_view("FB\0\0", 4));
    file.put_file(part.content);

    directory.put<std::uint32_t>("directory signature", 0x02014B50);
    directory.put<std::uint16_t>("version made by", 0);
    put_common(directory);
    directory.put<std::uint32_t>("compressed size", zip64 ? 0xFFFFFFFFu : size);
    directory.put<std::uint32_t>("size", zip64 ? 0xFFFFFFFFu : size);
    directory.put<std::uint16_t>("name size", static_cast<std::uint16_t>(part.name.size()));
    directory.put<std::uint16_t>("extra size", zip64 ? 28 : 0);
    directory.put<std::uint16_t>("comment size", 0);
    directory.put<std::uint64_t>("attributes", 0);
    directory.put<std::uint32_t>("local offset",
                                 zip64 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(offset));
    directory.put_text(part.name);
    if (zip64) {
      directory.put<std::uint16_t>("extra tag", 1);
      directory.put<std::uint16_t>("extra field size", 24);
      directory.put<std::uint64_t>("size 64", size);
      directory.put<std::uint64_t>("compressed size 64", size);
      directory.put<std::uint64_t>("local offset 64", offset);
    }
  }
  const std::size_t directory_offset = file.bytes.size();
  const std::size_t directory_size = directory.bytes.size();
  file.put_file(directory);
  if (zip64) {
    const std::size_t end64 = file.bytes.size();
    file.put<std::uint32_t>("end 64 signature", 0x06064B50);
    file.put<std::uint64_t>("end 64 size", 44);
    file.put<std::uint32_t>("end 64 versions", 0);
    file.put<std::uint32_t>("end 64 disk", 0);
    file.put<std::uint32_t>("end 64 directory disk", 0);
    file.put<std::uint64_t>("end 64 disk entries", parts.size());
    file.put<std::uint64_t>("end 64 entries", parts.size());
    file.put<std::uint64_t>("end 64 directory size", directory_size);
    file.put<std::uint64_t>("end 64 directory offset", directory_offset);
    file.put<std::uint32_t>("locator signature", 0x07064B50);
    file.put<std::uint32_t>("locator disk", 0);
    file.put<std::uint64_t>("locator offset", end64);
    file.put<std::uint32_t>("locator disks", 1);
  }
  file.put<std::uint32_t>("end signature", 0x06054B50);
  file.put<std::uint16_t>("end disk", 0);
  file.put<std::uint16_t>("end directory disk", 0);
  const auto entries = zip64 ? std::uint16_t{0xFFFF} : static_cast<std::uint16_t>(parts.size());
  file.put<std::uint16_t>("end disk entries", entries);
  file.put<std::uint16_t>("end entries", entries);
  file.put<std::uint32_t>("end directory size",
                          zip64 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(directory_size));
  file.put<std::uint32_t>("end directory offset",
                          zip64 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(directory_offset));
  file.put<std::uint16_t>("end comment size", 0);
  return file;
}

/// A torch file of this pickle and these storages (key, contents).
inline TestFile torch_file(const TestFile& pickle,
                           const std::vector<std::pair<std::string, std::string>>& storages,
                           bool zip64 = false) {
  std::vector<ZipPart> parts = {{"archive/data.pkl", pickle},
                                {"archive/byteorder", {"little", {}}}};
  for (const auto& [key, data] : storages) parts.push_back({"archive/data/" + key, {data, {}}});
  return zip_file(parts, zip64);
}

/// Tensors "a" [2, 3] f32, "b" [2, 2], which is a transposed window of the storage of "a", and "c"
/// [4] boolean.
inline TestFile small_torch(bool zip64 = false) {
  PickleWriter pickle;
  pickle.begin_dict().op("(");
  pickle.text("a").tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1});
  pickle.text("b").tensor("FloatStorage", "0", 6, 1, {2, 2}, {1, 3});
  pickle.text("c").tensor("BoolStorage", "1", 4, 0, {4}, {1});
  return torch_file(pickle.end_dict(), {{"0", test_data(24)}, {"1", test_data(4)}}, zip64);
}

/// dim 8, hidden 6, 2 layers, 4 heads of which 2 for keys, 5 tokens, 3 positions.
inline TestFile small_llama2c(bool separate_output = true) {
  TestFile file;
  file.put<std::int32_t>("dim", 8);
  file.put<std::int32_t>("hidden_dim", 6);
  file.put<std::int32_t>("n_layers", 2);
  file.put<std::int32_t>("n_heads", 4);
  file.put<std::int32_t>("n_kv_heads", 2);
  file.put<std::int32_t>("vocab_size", separate_output ? -5 : 5);
  file.put<std::int32_t>("seq_len", 3);
  constexpr std::size_t kLayer = 8 + 2 * 64 + 2 * 32 + 8 + 3 * 48;
  const std::size_t floats = 40 + 2 * kLayer + 8 + 2 * 3 + (separate_output ? 40 : 0);
  file.put_text(test_data(floats * sizeof(float)));
  return file;
}

/// A folder of its own for one test, removed at the end.
class TemporaryFolder : public ScratchFolder {
 public:
  std::filesystem::path add(std::string_view name, std::string_view contents) const {
    const auto file = path() / name;
    write_file(file, bytes_of(contents));
    return file;
  }
};

/// The message of the Error that `action` throws; "no error" if it throws none.
template <typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace talon::test
