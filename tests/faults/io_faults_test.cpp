#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "io/parse.h"
#include "io/tensor_layout.h"
#include "io/test_files.h"

// Every reader on damaged files: it may refuse with an Error or load something consistent, and
// nothing else. Files are parsed from memory of exactly their size, so that AddressSanitizer sees a
// read past their end.
namespace talon::io_faults_test {
namespace {

using namespace test;

using Parse = Checkpoint (*)(std::span<const std::byte>, const std::filesystem::path&);

struct Format {
  std::string name;
  Parse parse;
  std::function<TestFile()> make;
};

std::ostream& operator<<(std::ostream& out, const Format& format) { return out << format.name; }

const Format kFormats[] = {
    {"Gguf", parse_gguf, [] { return small_gguf().build(); }},
    {"Safetensors", parse_safetensors, [] { return small_safetensors(); }},
    {"TorchBin", parse_torch_bin, [] { return small_torch(); }},
    {"TorchBinZip64", parse_torch_bin, [] { return small_torch(true); }},
    {"Llama2c", parse_llama2c, [] { return small_llama2c(); }},
    {"Llama2cSharedOutput", parse_llama2c, [] { return small_llama2c(false); }},
};

bool lies_in(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

// What Checkpoint promises its users.
void expect_consistent(const Checkpoint& checkpoint, std::span<const std::byte> file) {
  unsigned sum = 0;
  std::size_t borrowed_or_empty = 0;
  for (const StoredTensor& tensor : checkpoint.tensors) {
    EXPECT_EQ(stored_bytes(tensor.type, tensor.shape), tensor.bytes.size()) << tensor.name;
    borrowed_or_empty += tensor.bytes.empty() || lies_in(tensor.bytes, file);
    for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
  }
  EXPECT_GE(borrowed_or_empty + checkpoint.owned.size(), checkpoint.tensors.size());
  EXPECT_LT(sum, std::numeric_limits<unsigned>::max()) << "reads every byte";
}

// True if the bytes were refused with an Error.
bool refuses(const Format& format, std::string_view text) {
  const auto exact = std::make_unique<std::byte[]>(text.size());
  std::memcpy(exact.get(), text.data(), text.size());
  const std::span<const std::byte> bytes(exact.get(), text.size());
  try {
    expect_consistent(format.parse(bytes, "damaged"), bytes);
    return false;
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("\"damaged\""), std::string_view::npos)
        << "names the file: " << error.what();
    return true;
  }
}

class FaultTest : public testing::TestWithParam<Format> {};

TEST_P(FaultTest, TheFileAsMadeLoads) {
  EXPECT_FALSE(refuses(GetParam(), GetParam().make().bytes));
}

TEST_P(FaultTest, EveryTruncationIsRefused) {
  const std::string bytes = GetParam().make().bytes;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(refuses(GetParam(), std::string_view(bytes).substr(0, size))) << size << " bytes";
  }
}

TEST_P(FaultTest, ExtremeNumbersInAnyFieldAreRefusedOrHarmless) {
  const TestFile file = GetParam().make();
  for (const Field& field : file.fields) {
    SCOPED_TRACE(field.name);
    const std::uint64_t max = ~std::uint64_t{0} >> (64 - 8 * field.width);
    for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, max, max - 1, max / 2,
                                      max / 2 + 1, max / 256, file.bytes.size()}) {
      std::string damaged = file.bytes;
      std::memcpy(damaged.data() + field.offset, &value, field.width);
      refuses(GetParam(), damaged);
    }
  }
}

// Numbers whose extreme values no reader may believe.
TEST_P(FaultTest, LargestSizesCountsAndOffsetsAreRefused) {
  const TestFile file = GetParam().make();
  std::size_t tried = 0;
  for (const Field& field : file.fields) {
    const auto has = [&](std::string_view word) {
      return field.name.find(word) != std::string::npos;
    };
    const bool ignored = field.name == "local compressed size" || field.name == "local size" ||
                         field.name == "end 64 size";  // the directory's are used
    if (ignored || !(has("size") || has("count") || has("offset") || has("dim"))) continue;
    for (const std::uint64_t value : {~std::uint64_t{0}, ~std::uint64_t{1}}) {
      std::string damaged = file.bytes;
      std::memcpy(damaged.data() + field.offset, &value, field.width);
      if (damaged == file.bytes) continue;
      EXPECT_TRUE(refuses(GetParam(), damaged)) << field.name << " = " << value;
      ++tried;
    }
  }
  EXPECT_GE(tried, 2u);
}

TEST_P(FaultTest, AnyDamagedByteIsRefusedOrHarmless) {
  const std::string bytes = GetParam().make().bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      refuses(GetParam(), damaged);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FaultTest, testing::ValuesIn(kFormats),
                         [](const auto& test) { return test.param.name; });

bool is_digit(char c) { return c >= '0' && c <= '9'; }

TEST(SafetensorsFaults, ExtremeNumbersInTheHeaderAreRefused) {
  const std::string header(kSmallSafetensorsHeader);
  std::size_t numbers = 0;
  for (std::size_t begin = 0; begin < header.size(); ++begin) {
    const bool starts =
        is_digit(header[begin]) && (header[begin - 1] == '[' || header[begin - 1] == ',');
    if (!starts) continue;
    std::size_t end = begin;
    while (is_digit(header[end])) ++end;
    ++numbers;
    for (const char* value :
         {"0", "1", "18446744073709551615", "18446744073709551614", "18446744073709551616",
          "9223372036854775807", "-1", "1e30", "1.5", "null", "\"3\"", "[3]"}) {
      std::string damaged = header;
      damaged.replace(begin, end - begin, value);
      if (damaged == header) continue;
      EXPECT_TRUE(refuses(kFormats[1], safetensors_file(damaged, test_data(38)).bytes)) << damaged;
    }
  }
  EXPECT_EQ(numbers, 9u);
}

}  // namespace
}  // namespace talon::io_faults_test
