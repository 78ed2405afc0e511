#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "io/byte_reader.h"
#include "io/formats/ggml_types.h"
#include "io/formats/gguf_format.h"
#include "io/formats/split_gguf.h"
#include "io/parse.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// GGUF, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
namespace talon {
namespace {

constexpr std::uint32_t kMostGgufDimensions = 4;
constexpr std::size_t kLongestKey = 65535;
constexpr std::size_t kLongestTensorName = 1024;
constexpr int kDeepestArray = 8;
// Elements of all arrays: each takes 16 bytes of memory or more, and may take 1 in the file. The
// largest vocabularies have 2 million with their merges, scores and types.
constexpr std::uint64_t kMostElements = 1 << 24;

// The fewest bytes that a value of this type takes, or nothing for a number that is no type.
std::optional<std::size_t> least_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::string:
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::array:
      return 12;
  }
  return std::nullopt;
}

// Names of ggml types that exist but are not read here.
std::string_view unread_type_name(std::uint32_t ggml_type) {
  switch (ggml_type) {
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    case 41:
      return "Q1_0";
    case 42:
      return "Q2_0";
    default:
      return "unknown";
  }
}

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::filesystem::path& name)
      : bytes_(bytes), reader_(bytes, fmt::format("read GGUF {}", quote(name.string()))) {
    checkpoint_.format = CheckpointFormat::gguf;
    checkpoint_.path = name;
    checkpoint_.metadata = Json::object();
  }

  Checkpoint parse() {
    read_magic_and_version();
    const auto tensor_count = reader_.take<std::uint64_t>("the tensor count");
    const auto value_count = reader_.take<std::uint64_t>("the key-value count");
    read_metadata(value_count);
    read_tensors(tensor_count);
    place_tensors();
    refuse_duplicate_names(checkpoint_.tensors, reader_.doing());
    refuse_overlaps();
    return std::move(checkpoint_);
  }

 private:
  void read_magic_and_version() {
    if (reader_.take<std::uint32_t>("the magic") != kGgufMagic) {
      fail("{}: byte 0: expected the magic \"GGUF\", found something else", reader_.doing());
    }
    const auto version = reader_.take<std::uint32_t>("the version");
    if (version == __builtin_bswap32(2) || version == __builtin_bswap32(3)) {
      fail("{}: expected a little-endian file, found a big-endian one", reader_.doing());
    }
    if (version != 2 && version != 3) {
      fail("{}: expected version 2 or 3, found {}", reader_.doing(), version);
    }
  }

  std::string_view take_string(std::string_view what) {
    const auto size = reader_.take<std::uint64_t>(what);
    return reader_.take_text(size, what);
  }

  void read_metadata(std::uint64_t count) {
    reader_.need_items(count, 8 + 4 + 1, "key-values");
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string_view key = take_string("a key");
      if (key.empty() || key.size() > kLongestKey) {
        fail("{}: key {}: expected 1 to {} bytes, found {}", reader_.doing(), i, kLongestKey,
             key.size());
      }
      const auto type = take_value_type(key);
      auto [place, added] = checkpoint_.metadata.emplace(std::string(key), nullptr);
      if (!added) fail("{}: key {}: found twice", reader_.doing(), quote(key));
      *place = take_value(type, key, 0);
    }
  }

  GgufType take_value_type(std::string_view key) {
    const auto number = reader_.take<std::uint32_t>("a value type");
    const auto type = static_cast<GgufType>(number);
    if (!least_bytes(type)) {
      fail("{}: key {}: expected a value type from 0 to 12, found {}", reader_.doing(), quote(key),
           number);
    }
    return type;
  }

  Json take_value(GgufType type, std::string_view key, int depth) {
    switch (type) {
      case GgufType::u8:
        return reader_.take<std::uint8_t>(key);
      case GgufType::i8:
        return reader_.take<std::int8_t>(key);
      case GgufType::u16:
        return reader_.take<std::uint16_t>(key);
      case GgufType::i16:
        return reader_.take<std::int16_t>(key);
      case GgufType::u32:
        return reader_.take<std::uint32_t>(key);
      case GgufType::i32:
        return reader_.take<std::int32_t>(key);
      case GgufType::f32:
        return reader_.take<float>(key);
      case GgufType::boolean:
        return take_boolean(key);
      case GgufType::string:
        return take_string(key);
      case GgufType::array:
        return take_array(key, depth);
      case GgufType::u64:
        return reader_.take<std::uint64_t>(key);
      case GgufType::i64:
        return reader_.take<std::int64_t>(key);
      case GgufType::f64:
        return reader_.take<double>(key);
    }
    throw Bug("take_value: the type was checked");
  }

  bool take_boolean(std::string_view key) {
    const auto value = reader_.take<std::uint8_t>(key);
    if (value > 1) {
      fail("{}: key {}: expected a boolean, 0 or 1, found {}", reader_.doing(), quote(key), value);
    }
    return value != 0;
  }

  Json take_array(std::string_view key, int depth) {
    if (depth == kDeepestArray) {
      fail("{}: key {}: expected at most {} arrays within each other, found more", reader_.doing(),
           quote(key), kDeepestArray);
    }
    const GgufType type = take_value_type(key);
    const auto count = reader_.take<std::uint64_t>(key);
    reader_.need_items(count, *least_bytes(type), "array elements");
    if (count > kMostElements - elements_) {
      fail("{}: key {}: expected at most {} elements in all arrays, found more", reader_.doing(),
           quote(key), kMostElements);
    }
    elements_ += count;
    Json::array_t values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(take_value(type, key, depth + 1));
    return values;
  }

  void read_tensors(std::uint64_t count) {
    reader_.need_items(count, 8 + 4 + 8 + 4 + 8, "tensors");
    checkpoint_.tensors.reserve(count);
    offsets_.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) read_tensor();
  }

  void read_tensor() {
    StoredTensor tensor;
    tensor.name = take_string("a tensor name");
    if (tensor.name.empty() || tensor.name.size() > kLongestTensorName) {
      fail("{}: tensor {}: expected a name of 1 to {} bytes, found {}", reader_.doing(),
           checkpoint_.tensors.size(), kLongestTensorName, tensor.name.size());
    }
    const auto dimensions = reader_.take<std::uint32_t>("a number of dimensions");
    if (dimensions == 0 || dimensions > kMostGgufDimensions) {
      fail_tensor(tensor, "1 to 4 dimensions", fmt::to_string(dimensions));
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto size = reader_.take<std::uint64_t>("a dimension");
      if (size == 0 ||
          size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        fail_tensor(tensor, "dimensions from 1 to 2^63 - 1", fmt::to_string(size));
      }
      tensor.shape.push_back(static_cast<std::int64_t>(size));
    }
    std::ranges::reverse(tensor.shape);
    tensor.type = take_storage_type(tensor);
    offsets_.push_back(reader_.take<std::uint64_t>("a tensor offset"));
    checkpoint_.tensors.push_back(std::move(tensor));
  }

  StorageType take_storage_type(const StoredTensor& tensor) {
    const auto number = reader_.take<std::uint32_t>("a tensor type");
    const auto type = type_of_ggml(number);
    if (!type) {
      fail_tensor(tensor, "a tensor type this program reads",
                  fmt::format("{} ({})", number, unread_type_name(number)));
    }
    return *type;
  }

  // Where the data begins: the first aligned byte after the header. A file without tensors may end
  // before it.
  std::size_t data_begin() {
    std::uint32_t alignment = kGgufAlignment;
    if (const auto value = checkpoint_.metadata.find("general.alignment");
        value != checkpoint_.metadata.end()) {
      const bool fits = value->is_number_unsigned() &&
                        value->get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max() &&
                        std::has_single_bit(value->get<std::uint64_t>());
      if (!fits) {
        fail(
            "{}: key \"general.alignment\": expected a power of two below 2^32, found another "
            "value",
            reader_.doing());
      }
      alignment = value->get<std::uint32_t>();
    }
    alignment_ = alignment;
    const std::size_t padding = (alignment - reader_.position() % alignment) % alignment;
    return reader_.position() + std::min(padding, reader_.remaining());
  }

  void place_tensors() {
    const auto data = bytes_.subspan(data_begin());
    for (std::size_t i = 0; i < checkpoint_.tensors.size(); ++i) {
      StoredTensor& tensor = checkpoint_.tensors[i];
      const auto size = stored_bytes(tensor.type, tensor.shape);
      if (!size) {
        fail_tensor(
            tensor,
            fmt::format("rows of whole {} blocks and less than 2^63 bytes", name_of(tensor.type)),
            show_shape(tensor.shape));
      }
      if (offsets_[i] % alignment_ != 0) {
        fail_tensor(tensor, fmt::format("an offset that is a multiple of {}", alignment_),
                    fmt::to_string(offsets_[i]));
      }
      if (offsets_[i] > data.size() || *size > data.size() - offsets_[i]) {
        fail_tensor(tensor, fmt::format("{} bytes at offset {} of the data", *size, offsets_[i]),
                    fmt::format("only {} bytes of data", data.size()));
      }
      tensor.bytes = data.subspan(offsets_[i], *size);
    }
  }

  void refuse_overlaps() {
    std::vector<const StoredTensor*> sorted;
    for (const StoredTensor& tensor : checkpoint_.tensors) sorted.push_back(&tensor);
    std::ranges::sort(sorted, {}, [](const StoredTensor* tensor) { return tensor->bytes.data(); });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      const auto& before = *sorted[i - 1];
      if (before.bytes.data() + before.bytes.size() > sorted[i]->bytes.data()) {
        fail_tensor(*sorted[i], "bytes of its own",
                    fmt::format("bytes shared with {}", quote(before.name)));
      }
    }
  }

  [[noreturn]] void fail_tensor(const StoredTensor& tensor, std::string_view expected,
                                std::string_view found) const {
    fail("{}: tensor {}: expected {}, found {}", reader_.doing(), quote(tensor.name), expected,
         found);
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  Checkpoint checkpoint_;
  std::uint64_t elements_ = 0;          // of arrays so far
  std::vector<std::uint64_t> offsets_;  // of the tensors, into the data
  std::uint32_t alignment_ = kGgufAlignment;
};

}  // namespace

Checkpoint parse_gguf(std::span<const std::byte> bytes, const std::filesystem::path& name) {
  return GgufParser(bytes, name).parse();
}

Checkpoint read_gguf(const std::filesystem::path& file) {
  MappedFile mapped(file);
  Checkpoint checkpoint = parse_gguf(mapped.bytes(), file);
  mapped.check_whole();
  checkpoint.files.push_back(std::move(mapped));
  append_splits(checkpoint);
  return checkpoint;
}

}  // namespace talon
