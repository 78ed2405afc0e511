#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "io/parse.h"
#include "io/test_files.h"

namespace talon::torch_bin_test {
namespace {

using namespace test;

std::string refusal(const TestFile& file) {
  return message_of([&] { parse_torch_bin(bytes_of(file.bytes), "x.bin"); });
}

// One tensor "t" over a storage "0" of six float32.
TestFile one_tensor(std::int32_t offset, const std::vector<std::int32_t>& shape,
                    const std::vector<std::int32_t>& strides) {
  PickleWriter pickle;
  pickle.begin_dict().op("(").text("t").tensor("FloatStorage", "0", 6, offset, shape, strides);
  return torch_file(pickle.end_dict(), {{"0", test_data(24)}});
}

TestFile with_pickle(const TestFile& pickle) { return torch_file(pickle, {{"0", test_data(24)}}); }

TEST(TorchBin, BorrowsContiguousTensorsAndCopiesStridedOnes) {
  const TestFile file = small_torch();
  const Checkpoint checkpoint = parse_torch_bin(bytes_of(file.bytes), "x.bin");
  ASSERT_EQ(checkpoint.tensors.size(), 3u);
  const StoredTensor& a = checkpoint.require("a");
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_GE(a.bytes.data(), bytes_of(file.bytes).data());
  EXPECT_LT(a.bytes.data(), bytes_of(file.bytes).data() + file.bytes.size());
  const StoredTensor& b = checkpoint.require("b");
  ASSERT_EQ(b.bytes.size(), 16u);
  ASSERT_EQ(checkpoint.owned.size(), 1u);
  for (const auto& [element, stored] : {std::pair(0, 1), {1, 4}, {2, 2}, {3, 5}}) {
    EXPECT_EQ(std::memcmp(b.bytes.data() + 4 * element, a.bytes.data() + 4 * stored, 4), 0);
  }
  EXPECT_EQ(checkpoint.require("c").type, StorageType::boolean);
}

TEST(TorchBin, ReadsZip64AsWell) {
  const TestFile file = small_torch(true);
  const Checkpoint checkpoint = parse_torch_bin(bytes_of(file.bytes), "x.bin");
  EXPECT_EQ(checkpoint.tensors.size(), 3u);
}

class TorchGoldenTest : public testing::TestWithParam<const char*> {};

// torch.save and safetensors wrote the same tensors side by side.
TEST_P(TorchGoldenTest, HoldsTheSameTensorsAsTheSafetensorsFileBesideIt) {
  const auto folder =
      std::filesystem::path(TALON_TEST_DATA "/golden/stories260k") / std::string(GetParam());
  const Checkpoint torch = open_checkpoint(folder / "pytorch_model.bin");
  const Checkpoint expected = open_checkpoint(folder / "model.safetensors");
  EXPECT_EQ(torch.format, CheckpointFormat::torch_bin);
  ASSERT_EQ(torch.tensors.size(), expected.tensors.size());
  for (const StoredTensor& tensor : expected.tensors) {
    const StoredTensor& found = torch.require(tensor.name);
    EXPECT_EQ(found.type, tensor.type) << tensor.name;
    EXPECT_EQ(found.shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(found.bytes, tensor.bytes)) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, TorchGoldenTest,
                         testing::Values("eagle1_head", "eagle3_head", "eagle3_head_fullvocab"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TorchBin, IgnoresModuleVersionsAndUnwrapsParameters) {
  PickleWriter pickle;
  pickle.begin_dict().op("(").text("t").global("torch._utils", "_rebuild_parameter").op("(");
  pickle.tensor("FloatStorage", "0", 6, 0, {6}, {1}).op("\x88").begin_dict().op("tRu");
  pickle.op("}").text("_metadata").begin_dict().op("(").text("").op("}").text("version");
  pickle.number("version", 1).op("susb.");
  const TestFile file = with_pickle(pickle.file());
  const Checkpoint checkpoint = parse_torch_bin(bytes_of(file.bytes), "x.bin");
  ASSERT_EQ(checkpoint.tensors.size(), 1u);
  EXPECT_EQ(checkpoint.tensors[0].shape, (std::vector<std::int64_t>{6}));
}

TEST(TorchBin, RefusesOtherClassesByName) {
  PickleWriter pickle;
  pickle.global("os", "system").op("(").text("echo").op("tR.");
  EXPECT_EQ(
      refusal(with_pickle(pickle.file())),
      "read torch file \"x.bin\": pickle byte 26: expected a dict of tensors, found an object of "
      "\"os.system\", which is refused");
  PickleWriter storage;
  storage.global("torch", "QInt8Storage").op(".");
  EXPECT_NE(refusal(with_pickle(storage.file())).find("\"torch.QInt8Storage\""), std::string::npos);
}

// What training scripts save: {"args": argparse.Namespace(...), "steps": 7, "model": {...}}.
TEST(TorchBin, FindsTheModelBesideObjectsThatItPassesOver) {
  PickleWriter pickle;
  pickle.begin_dict().op("(").text("args").global("argparse", "Namespace").op(")\x81");
  pickle.op("}").text("lr").text("1e-4").op("sb").text("steps").number("steps", 7);
  pickle.text("model").begin_dict().op("(").text("t");
  pickle.tensor("FloatStorage", "0", 6, 0, {6}, {1}).op("uu.");
  const TestFile file = with_pickle(pickle.file());
  const Checkpoint checkpoint = parse_torch_bin(bytes_of(file.bytes), "x.pt");
  ASSERT_EQ(checkpoint.tensors.size(), 1u);
  EXPECT_EQ(checkpoint.tensors[0].name, "t");
}

TEST(TorchBin, RefusesAnObjectWhereATensorIsExpected) {
  PickleWriter pickle;
  pickle.begin_dict().op("(").text("model").begin_dict().op("(").text("t");
  pickle.global("numpy", "ndarray").op(")\x81uu.");
  EXPECT_EQ(refusal(with_pickle(pickle.file())),
            "read torch file \"x.bin\": entry \"t\": expected a tensor, found an object of "
            "\"numpy.ndarray\", which is refused");
}

TEST(TorchBin, RefusesOtherOpcodesAndProtocols) {
  PickleWriter opcode;
  opcode.op("\x93.");  // STACK_GLOBAL of protocol 4
  EXPECT_NE(refusal(with_pickle(opcode.file())).find("found 0x93"), std::string::npos);
  TestFile protocol;
  protocol.put_text("\x80\x04N.");
  EXPECT_NE(refusal(with_pickle(protocol)).find("expected pickle protocol 2, found 4"),
            std::string::npos);
}

TEST(TorchBin, RefusesBrokenStacks) {
  for (const char* opcodes : {".", "t.", "a.", "s.", "u.", "R.", "Q.", "b.", "\x85.", "h\x07.",
                              "(N", "N", "N.", "]Na.", "}.x", "((tt.", "(q\x01."}) {
    PickleWriter pickle;
    const std::string message = refusal(with_pickle(pickle.op(opcodes).file()));
    if (std::string_view(opcodes) == "}.x") {
      EXPECT_EQ(message, "no error") << "an empty dict holds no tensors";
    } else {
      EXPECT_NE(message, "no error") << opcodes;
    }
  }
}

TEST(TorchBin, RefusesMoreValuesThanAModelHas) {
  PickleWriter pickle;
  const std::string message = refusal(with_pickle(pickle.op(std::string(3'000'000, ']')).file()));
  EXPECT_NE(message.find("expected at most 2097152 values, found more"), std::string::npos)
      << message;
}

TEST(TorchBin, AContainerThatHoldsItselfDoesNoHarm) {
  PickleWriter pickle;
  pickle.op("]q").op(std::string_view("\0h\0a.", 5));
  EXPECT_EQ(refusal(with_pickle(pickle.file())),
            "read torch file \"x.bin\": pickle byte 9: expected a dict of tensors, found a list");
}

TEST(TorchBin, RefusesEntriesThatAreNoTensor) {
  PickleWriter pickle;
  pickle.begin_dict().op("(").text("epoch").number("epoch", 3);
  EXPECT_EQ(refusal(with_pickle(pickle.end_dict())),
            "read torch file \"x.bin\": entry \"epoch\": expected a tensor, found an integer");
}

TEST(TorchBin, RefusesOneNameTwice) {
  PickleWriter pickle;
  pickle.begin_dict().op("(").text("t").tensor("FloatStorage", "0", 6, 0, {6}, {1});
  pickle.text("t").tensor("FloatStorage", "0", 6, 0, {6}, {1});
  EXPECT_NE(refusal(with_pickle(pickle.end_dict()))
                .find("tensor \"t\": expected one of that name, found two"),
            std::string::npos);
}

TEST(TorchBin, CopiesNoMoreThanTheFileIsLarge) {
  const auto with_windows = [](int count) {
    PickleWriter pickle;
    pickle.begin_dict().op("(");
    for (int i = 0; i < count; ++i) {
      pickle.text(std::to_string(i)).tensor("FloatStorage", "0", 1024, 0, {32, 32}, {1, 32});
    }
    return refusal(torch_file(pickle.end_dict(), {{"0", test_data(4096)}}));
  };
  EXPECT_EQ(with_windows(1), "no error");
  EXPECT_NE(with_windows(9).find("expected strided tensors no larger together than the file"),
            std::string::npos);
}

TEST(TorchBin, RefusesWindowsThatLeaveTheirStorage) {
  EXPECT_EQ(refusal(one_tensor(0, {2, 3}, {3, 1})), "no error");
  EXPECT_EQ(refusal(one_tensor(5, {1}, {1})), "no error");
  EXPECT_EQ(refusal(one_tensor(6, {0}, {1})), "no error");
  EXPECT_EQ(
      refusal(one_tensor(1, {2, 3}, {3, 1})),
      "read torch file \"x.bin\": tensor \"t\": expected a window of its storage of 6 elements, "
      "found offset 1, shape [2, 3], strides [3, 1]");
  EXPECT_NE(refusal(one_tensor(0, {2}, {0x7FFFFFFF})), "no error");
  EXPECT_NE(refusal(one_tensor(0, {7}, {0})).find("expected at most 6 elements"),
            std::string::npos);
  EXPECT_NE(refusal(one_tensor(0, {-1}, {1})).find("not negative"), std::string::npos);
  EXPECT_NE(refusal(one_tensor(0, {2, 3}, {3})).find("as many strides"), std::string::npos);
}

TEST(TorchBin, RefusesStoragesThatAreMissingOrOfAnotherSize) {
  PickleWriter missing;
  missing.begin_dict().op("(").text("t").tensor("FloatStorage", "9", 6, 0, {6}, {1});
  EXPECT_EQ(
      refusal(with_pickle(missing.end_dict())),
      "read torch file \"x.bin\": tensor \"t\": expected the storage \"9\" in the archive, found "
      "none");
  PickleWriter larger;
  larger.begin_dict().op("(").text("t").tensor("DoubleStorage", "0", 6, 0, {6}, {1});
  EXPECT_EQ(
      refusal(with_pickle(larger.end_dict())),
      "read torch file \"x.bin\": tensor \"t\": expected a storage of 6 f64 elements, found 24 "
      "bytes");
}

TEST(TorchBin, RefusesBigEndianFilesAndArchivesWithoutPickle) {
  EXPECT_EQ(refusal(zip_file({{"a/data.pkl", {}}, {"a/byteorder", {"big", {}}}})),
            "read torch file \"x.bin\": expected little-endian tensors, found byteorder \"big\"");
  EXPECT_NE(refusal(zip_file({{"word/document.xml", {}}})).find("expected a zip archive with"),
            std::string::npos);
}

TEST(StoredZip, RefusesCompressedEncryptedDuplicateAndForeignEntries) {
  const auto broken = [](std::string_view field, std::uint16_t value) {
    TestFile file = small_torch();
    for (const Field& place : file.fields) {
      if (place.name == field) std::memcpy(file.bytes.data() + place.offset, &value, 2);
    }
    return refusal(file);
  };
  EXPECT_NE(broken("method", 8).find("expected it stored without compression, found method 8"),
            std::string::npos);
  EXPECT_NE(broken("flags", 1).find("found it encrypted"), std::string::npos);
  EXPECT_NE(broken("end disk", 1).find("found one in several"), std::string::npos);
  const TestFile content = {"x", {}};
  EXPECT_NE(
      refusal(zip_file({{"a", content}, {"a", content}})).find("zip entry \"a\": found twice"),
      std::string::npos);
}

// Overwrites the number that stands in the nth field of that name.
void set_field(TestFile& file, std::string_view name, std::size_t nth, std::uint32_t value) {
  for (const Field& field : file.fields) {
    if (field.name != name || nth-- != 0) continue;
    std::memcpy(file.bytes.data() + field.offset, &value, field.width);
    return;
  }
  FAIL() << "no field " << name;
}

TEST(StoredZip, RefusesEntriesThatReachIntoTheDirectory) {
  TestFile file = small_torch();
  set_field(file, "compressed size", 0, 1 << 20);
  set_field(file, "size", 0, 1 << 20);
  EXPECT_NE(
      refusal(file).find("\"archive/data.pkl\": expected its data before the directory, found "
                         "1048576 bytes"),
      std::string::npos);
}

TEST(StoredZip, RefusesEntriesWhoseLocalHeaderNamesAnother) {
  TestFile file = small_torch();
  set_field(file, "local offset", 1, 0);
  EXPECT_NE(
      refusal(file).find("zip entry \"archive/byteorder\": expected the same name in its local "
                         "header, found \"archive/data.pkl\""),
      std::string::npos);
}

TEST(StoredZip, RefusesAnEntryInsideAnother) {
  constexpr std::size_t kLocalHeader = 30 + 1 + 4;  // with the name and the extra field
  const std::string inner = zip_file({{"b", {"x", {}}}}).bytes.substr(0, kLocalHeader + 1);
  TestFile file = zip_file({{"a", {inner, {}}}, {"b", {"x", {}}}});
  EXPECT_NE(refusal(file).find("FOLDER/data.pkl"), std::string::npos) << "sound, but not of torch";
  set_field(file, "local offset", 1, kLocalHeader);
  EXPECT_NE(refusal(file).find("expected each byte in one zip entry, found it in two"),
            std::string::npos);
}

TEST(StoredZip, FindsTheDirectoryBeforeAComment) {
  TestFile file = small_torch();
  const std::uint16_t size = 5;
  std::memcpy(file.bytes.data() + file.bytes.size() - 2, &size, 2);
  file.bytes += "hello";
  EXPECT_EQ(refusal(file), "no error");
  file.bytes += "x";
  EXPECT_NE(refusal(file).find("expected a zip directory at the end"), std::string::npos);
}

}  // namespace
}  // namespace talon::torch_bin_test
