#include <gtest/gtest.h>
#include <png.h>
#include <sys/prctl.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/machine/available_memory.h"
#include "image/class_names.h"
#include "image/picture.h"
#include "image/png.h"
#include "image/prompt_words.h"
#include "image/vq_decoder.h"
#include "io/test_files.h"
#include "io/test_pictures.h"

namespace talon::image_test {
namespace {

namespace fs = std::filesystem;

using test::kPictureGoldens;
using test::numbers;

fs::path unpack(const std::string& name) { return test::unpack_picture("talon_image", name); }

/// A recorded tokenizer, with a change.
template <typename Change>
std::string refusal_of(const Change& change, const char* name = "vq.pt") {
  Checkpoint checkpoint = open_checkpoint(unpack(name));
  change(checkpoint);
  return test::message_of([&] { VqDecoder(checkpoint, 3, 5); });
}

StoredTensor& tensor_of(Checkpoint& checkpoint, const std::string& name) {
  return *std::ranges::find(checkpoint.tensors, name, &StoredTensor::name);
}

// tests/data/golden/images/record.py; sums in another order: 1e-4 of values of about 1.
TEST(VqDecoder, GivesThePixelsOfPyTorch) {
  const Checkpoint checkpoint = open_checkpoint(unpack("vq.pt"));
  const Checkpoint golden = open_checkpoint(unpack("vq.golden.safetensors"));
  const VqDecoder decoder(checkpoint, 3, 5);
  EXPECT_EQ(decoder.codes(), 48);
  EXPECT_EQ(decoder.width(), 10);
  EXPECT_EQ(decoder.height(), 6);
  const auto codes = numbers<TokenId>(golden, "codes");
  const auto expected = numbers<float>(golden, "pixels");  // [3, 6, 10]
  const std::vector<float> found = decoder.values(codes);
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (std::size_t cell = 0; cell < 60; ++cell) {
    for (std::size_t c = 0; c < 3; ++c) {
      largest = std::max(
          largest, static_cast<double>(std::abs(found[cell * 3 + c] - expected[c * 60 + cell])));
    }
  }
  EXPECT_LT(largest, 1e-4);
  const Picture picture = decoder.decode(codes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double level = (std::clamp(static_cast<double>(found[i]), -1.0, 1.0) + 1) * 127.5;
    EXPECT_NEAR(picture.rgb[i], level, 0.5001);
  }
}

// The layout of Chameleon's tokenizer: levels numbered downwards, codes as they are stored.
TEST(VqDecoder, ReadsChameleonsTokenizer) {
  const Checkpoint checkpoint = open_checkpoint(unpack("chameleon_vq.pt"));
  const Checkpoint golden = open_checkpoint(unpack("chameleon_vq.golden.safetensors"));
  const VqDecoder decoder(checkpoint, 2, 4);
  EXPECT_EQ(decoder.width(), 16);
  const auto codes = numbers<TokenId>(golden, "codes");
  const auto expected = numbers<float>(golden, "pixels");  // [3, 8, 16]
  const std::vector<float> found = decoder.values(codes);
  ASSERT_EQ(found.size(), expected.size());
  const Picture picture = decoder.decode(codes);
  for (std::size_t cell = 0; cell < 128; ++cell) {
    for (std::size_t c = 0; c < 3; ++c) {
      ASSERT_NEAR(found[cell * 3 + c], expected[c * 128 + cell], 1e-4);
      const double value = std::clamp(static_cast<double>(found[cell * 3 + c]), -1.0, 1.0);
      ASSERT_EQ(picture.rgb[cell * 3 + c], std::floor((value + 1) * 127.5));
    }
  }
}

/// A recorded tokenizer as it lies among the tensors of a model.
Checkpoint within_model(const char* name, const std::string& prefix) {
  Checkpoint checkpoint = open_checkpoint(unpack(name));
  for (StoredTensor& tensor : checkpoint.tensors) tensor.name.insert(0, prefix);
  checkpoint.by_name.clear();
  return checkpoint;
}

TEST(VqDecoder, ReadsTokenizersAmongTheTensorsOfAModel) {
  const std::vector<TokenId> codes = {3, 1, 4, 1, 5, 9, 2, 6};
  const VqDecoder alone(open_checkpoint(unpack("chameleon_vq.pt")), 2, 4);
  EXPECT_EQ(VqDecoder(within_model("chameleon_vq.pt", "model.vqmodel."), 2, 4).decode(codes).rgb,
            alone.decode(codes).rgb);
}

// Published code of Janus cuts pixels off, that of LlamaGen, whose tokenizer it is, rounds them.
TEST(VqDecoder, CutsThePixelsOfJanus) {
  const std::vector<TokenId> codes = {3, 1, 4, 1, 5, 9, 2, 6};
  const VqDecoder decoder(within_model("vq.pt", "gen_vision_model."), 2, 4);
  const Picture picture = decoder.decode(codes);
  const std::vector<float> values = decoder.values(codes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = std::clamp(static_cast<double>(values[i]), -1.0, 1.0);
    ASSERT_EQ(picture.rgb[i], std::floor((value + 1) * 127.5));
  }
  const VqDecoder rounding(open_checkpoint(unpack("vq.pt")), 2, 4);
  EXPECT_NE(rounding.decode(codes).rgb, picture.rgb);
}

TEST(VqDecoder, RefusesAGridWhosePicturesNeedMoreMemoryThanThereIs) {
  // Three planes of 6144 by 4096 by 64; of an attention five of a quarter of that, and a row.
  constexpr std::size_t kNeeded = std::size_t{18432 + 7680 + 24} << 20;
  if (available_memory().value_or(kNeeded) >= kNeeded) GTEST_SKIP() << "there is enough";
  const Checkpoint checkpoint = open_checkpoint(unpack("vq.pt"));
  const std::string message = test::message_of([&] { VqDecoder(checkpoint, 3072, 2048); });
  EXPECT_TRUE(message.starts_with("decode pictures of 2048 by 3072 cells: expected at most "))
      << message;
  EXPECT_NE(message.find(" MiB, the memory that is available, found 26136 MiB"), std::string::npos)
      << message;
}

// On a thread of its own: each that asks oneDNN for work has helpers of its own.
TEST(VqDecoder, StartsNoMoreThreadsThanItIsGiven) {
  const auto threads = [] {
    return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
  };
  const Checkpoint checkpoint = open_checkpoint(unpack("vq.pt"));
  const std::vector<TokenId> codes(16 * 16, 7);
  std::thread([&] {
    const auto before = threads();
    const VqDecoder decoder(checkpoint, 16, 16, /*threads=*/1);
    EXPECT_EQ(decoder.values(codes).size(), 32u * 32 * 3);
    EXPECT_EQ(threads(), before);
  }).join();
}

TEST(VqDecoder, RefusesHostileTokenizersByTheTensor) {
  EXPECT_EQ(refusal_of([](Checkpoint&) {}), "no error");
  const auto contains = [](const std::string& message, std::string_view part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  contains(refusal_of([](Checkpoint& file) {
             std::erase_if(file.tensors,
                           [](const auto& t) { return t.name == "decoder.conv_in.bias"; });
           }),
           "\"decoder.conv_in.bias\"");
  contains(refusal_of([](Checkpoint& file) {
             tensor_of(file, "quantize.embedding.weight").shape = {384};
           }),
           "\"quantize.embedding.weight\": expected [1 to");
  contains(
      refusal_of([](Checkpoint& file) {
        tensor_of(file, "decoder.conv_out.weight").shape = {1, 32, 3, 9};
      }),
      "\"decoder.conv_out.weight\": expected [channels, 32, 1 or 3, as many], found [1, 32, 3, 9]");
  contains(refusal_of([](Checkpoint& file) {
             StoredTensor& codes = tensor_of(file, "quantize.embedding.weight");
             static const std::vector<std::byte> zeros(codes.bytes.size());
             codes.bytes = zeros;
           }),
           "\"quantize.embedding.weight\": expected rows that are not zero, found row 0");
  contains(refusal_of([](Checkpoint& file) {
             StoredTensor& bias = tensor_of(file, "post_quant_conv.bias");
             static std::vector<std::byte> all;
             all.assign(bias.bytes.size(), std::byte{0xff});
             bias.bytes = all;
           }),
           "\"post_quant_conv.bias\": expected finite values, found NaN or infinity");
}

TEST(VqDecoder, SaysWhyItCannotLoadWhereMemoryThatWasWrittenMustNotRun) {
  constexpr int kSet = 65, kGet = 66, kRefuseGain = 1;  // PR_SET_MDWE and its like of Linux 6.3
  if (prctl(kGet, 0, 0, 0, 0) < 0) GTEST_SKIP() << "the system cannot forbid it";
  const Checkpoint checkpoint = open_checkpoint(unpack("vq.pt"));
  const auto load = [&] {
    if (prctl(kSet, kRefuseGain, 0, 0, 0) != 0) std::_Exit(1);
    // A grid of its own: what was compiled before is kept.
    std::fputs(test::message_of([&] { VqDecoder(checkpoint, 7, 9); }).c_str(), stderr);
    std::_Exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(load(), testing::ExitedWithCode(0),
              "prepare \".*\" with oneDNN: .*MemoryDenyWriteExecute");
}

TEST(VqDecoder, RefusesLevelsOfChameleonThatDoNotFollowEachOther) {
  const char* const name = "chameleon_vq.pt";
  EXPECT_EQ(refusal_of([](Checkpoint&) {}, name), "no error");
  const auto renamed = [&](const char* from, const char* to) {
    const auto rename = [&](Checkpoint& file) {
      tensor_of(file, from).name = to;
      file.by_name.clear();
    };
    return refusal_of(rename, name);
  };
  const std::string up1 = "decoder.up.1.upsample.conv.weight";
  EXPECT_NE(renamed(up1.c_str(), "gone")
                .find("\"" + up1 + "\": expected one in every level but number 0, found none"),
            std::string::npos);
  EXPECT_NE(renamed("decoder.up.2.upsample.conv.weight", "decoder.up.0.upsample.conv.weight")
                .find("\"decoder.up.2.upsample.conv.weight\": expected one"),
            std::string::npos);
  const auto both = refusal_of(
      [&](Checkpoint& file) {
        StoredTensor more = tensor_of(file, up1);
        more.name = "decoder.up.0.upsample.conv.weight";
        file.tensors.push_back(more);
      },
      name);
  EXPECT_NE(both.find("number 0, found one"), std::string::npos) << both;
}

Picture random_picture(int width, int height, unsigned seed) {
  std::mt19937 random(seed);
  Picture picture{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i)
    picture.rgb.push_back(static_cast<std::uint8_t>(random()));
  return picture;
}

TEST(Png, HoldsThePixelsAndTexts) {
  const Picture picture = random_picture(7, 5, 1);
  const fs::path file = fs::path(testing::TempDir()) / "picture.png";
  write_png(file, picture, {{"prompt", "red cat é"}, {"seed", "7"}});
  png_image reader = {};
  reader.version = PNG_IMAGE_VERSION;
  ASSERT_TRUE(png_image_begin_read_from_file(&reader, file.c_str())) << reader.message;
  ASSERT_EQ(reader.width, 7u);
  ASSERT_EQ(reader.height, 5u);
  reader.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(reader));
  ASSERT_TRUE(png_image_finish_read(&reader, nullptr, pixels.data(), 0, nullptr));
  EXPECT_EQ(pixels, picture.rgb);
  const std::vector<std::byte> bytes = encode_png(picture, {{"prompt", "red cat é"}});
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_NE(text.find("iTXtprompt"), std::string_view::npos);
  EXPECT_NE(text.find("red cat é"), std::string_view::npos);
}

TEST(Png, SaysWhyAFileCannotBeWritten) {
  const Picture picture = random_picture(64, 64, 2);
  EXPECT_NE(test::message_of([&] {
              write_png("/no/such/folder/x.png", picture);
            }).find("/no/such/folder"),
            std::string::npos);
  EXPECT_NE(test::message_of([&] { write_png("/proc/x.png", picture); }), "no error");
}

TEST(Sheet, PutsPicturesBesideEachOtherOnWhite) {
  const std::vector<Picture> pictures = {random_picture(2, 3, 3), random_picture(2, 3, 4),
                                         random_picture(2, 3, 5)};
  const Picture sheet = sheet_of(pictures, 2, 1);
  ASSERT_EQ(sheet.width, 5);
  ASSERT_EQ(sheet.height, 7);
  const auto pixel = [](const Picture& p, int x, int y) {
    return p.rgb[static_cast<std::size_t>((y * p.width + x) * 3)];
  };
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 2; ++x) {
      EXPECT_EQ(pixel(sheet, x, y), pixel(pictures[0], x, y));
      EXPECT_EQ(pixel(sheet, x + 3, y), pixel(pictures[1], x, y));
      EXPECT_EQ(pixel(sheet, x, y + 4), pixel(pictures[2], x, y));
      EXPECT_EQ(pixel(sheet, x + 3, y + 4), 255);
    }
    EXPECT_EQ(pixel(sheet, 2, y), 255);
  }
}

TEST(PromptWords, PutsTheStyleLastAndNullWordsBetween) {
  const PromptWords words = PromptWords::read(kPictureGoldens / "words/words.json");
  EXPECT_EQ(words.rows(), 9);
  EXPECT_EQ(words.rows_of("cat, red  round", 6), (std::vector<int>{0, 2, 8, 8, 8, 6}));
  EXPECT_EQ(words.rows_of("flat", 2), (std::vector<int>{8, 5}));
}

TEST(PromptWords, RefusesOthersAndNamesWhatIsLikeThem) {
  const PromptWords words({"cat", "cart", "moon"}, {"flat"});
  const auto refusal = [&](std::string_view text) {
    return test::message_of([&] { words.rows_of(text, 3); });
  };
  EXPECT_EQ(refusal("cot flat"),
            "prompt: expected words that the model knows, such as cat, cart, moon, got \"cot\"");
  EXPECT_EQ(refusal("cat"), "prompt: expected words and then a style, flat, got \"cat\"");
  EXPECT_EQ(refusal(""), "prompt: expected words and then a style, flat, got \"\"");
  EXPECT_EQ(refusal("cat cart moon flat"),
            "prompt: expected at most 2 words before the style, got 3");
  const fs::path file = fs::path(testing::TempDir()) / "words.json";
  std::ofstream(file) << R"({"words": ["a", "a"], "styles": ["x"]})";
  EXPECT_NE(test::message_of([&] { PromptWords::read(file); }).find("expected each text once"),
            std::string::npos);
  const auto expect = [&](std::string_view text, std::string_view part) {
    std::ofstream(file, std::ios::trunc) << text;
    const std::string found = test::message_of([&] { PromptWords::read(file); });
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(R"({"words": ["a", 3], "styles": ["x"]})",
         "words: entry 1: expected a text, found number");
  expect(R"({"words": "a", "styles": ["x"]})", "words: expected a list of at most");
  expect(R"({"words": ["a", ""], "styles": ["x"]})",
         "words: entry 1: expected a word without spaces and commas, found \"\"");
  expect(R"({"words": ["a"], "styles": ["x", "b c"]})",
         "styles: entry 1: expected a word without spaces and commas, found \"b c\"");
}

TEST(PromptWords, AreFoundInEitherCaseWhereNoneHasThatOfThePrompt) {
  const PromptWords words({"cat", "Moon", "US", "us", "Us"}, {"Flat"});
  EXPECT_EQ(words.rows_of("CAT moon flat", 3), (std::vector<int>{0, 1, 5}));
  EXPECT_EQ(words.rows_of("US us Flat", 3), (std::vector<int>{2, 3, 5}));
  EXPECT_NE(test::message_of([&] { words.rows_of("uS flat", 3); }).find("got \"uS\""),
            std::string::npos);
}

TEST(Png, TellsTheTextsThatItHolds) {
  const fs::path file = fs::path(testing::TempDir()) / "texts.png";
  const PngTexts texts = {{"prompt", "r\u00f6d katt"}, {"seed", "7"}};
  write_png(file, {2, 1, {1, 2, 3, 4, 5, 6}}, texts);
  EXPECT_EQ(read_png_texts(file), texts);
  std::ifstream whole(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(whole), {});
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{7}, std::size_t{20}, std::size_t{60}}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes.substr(0, size);
    EXPECT_NE(test::message_of([&] { read_png_texts(file); }).find("expected a PNG file"),
              std::string::npos)
        << size;
  }
}

TEST(Png, GivesThePixelsThatItHolds) {
  const fs::path file = fs::path(testing::TempDir()) / "pixels.png";
  const Picture picture = {2, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255}};
  write_png(file, picture, {{"seed", "7"}});
  const PngFile found = read_png(file, 2);
  EXPECT_EQ(found.picture.width, 2);
  EXPECT_EQ(found.picture.height, 2);
  EXPECT_EQ(found.picture.rgb, picture.rgb);
  EXPECT_EQ(found.texts, (PngTexts{{"seed", "7"}}));
  EXPECT_NE(test::message_of([&] { read_png(file, 1); }).find(file.string()), std::string::npos);
  fs::resize_file(file, fs::file_size(file) - 30);
  EXPECT_NE(test::message_of([&] { read_png(file, 2); }).find("expected a PNG file: "),
            std::string::npos);
}

TEST(Png, WhatIsSeenThroughIsWhite) {
  const fs::path file = fs::path(testing::TempDir()) / "gray.png";
  png_image writer = {};
  writer.version = PNG_IMAGE_VERSION;
  writer.width = 2;
  writer.height = 1;
  writer.format = PNG_FORMAT_GA;
  const std::uint8_t pixels[] = {40, 255, 40, 0};  // gray, opacity
  ASSERT_TRUE(png_image_write_to_file(&writer, file.c_str(), 0, pixels, 0, nullptr));
  EXPECT_EQ(read_png(file, 2).picture.rgb, (std::vector<std::uint8_t>{40, 40, 40, 255, 255, 255}));
}

TEST(ClassNames, AreFoundInAnyCaseAndByAnyOfTheirNames) {
  const fs::path file = fs::path(testing::TempDir()) / "classes.json";
  const auto write = [&](const std::string& text) { std::ofstream(file, std::ios::trunc) << text; };
  write(R"(["tench, Tinca tinca", "goldfish", "white shark"])");
  const ClassNames names = ClassNames::read(file, 3);
  EXPECT_EQ(names.find("TENCH"), 0);
  EXPECT_EQ(names.find(" tinca tinca"), 0);
  EXPECT_EQ(names.find("Tench, Tinca Tinca"), 0);
  EXPECT_EQ(names.find("White Shark"), 2);
  const std::string unknown = test::message_of([&] { names.find("goldfisch"); });
  EXPECT_EQ(unknown.find("class: expected a number or a name, such as goldfish, "), 0u) << unknown;
  EXPECT_NE(test::message_of([&] { names.find(""); }), "");
  const auto refusal = [&] { return test::message_of([&] { ClassNames::read(file, 4); }); };
  EXPECT_NE(refusal().find("expected 4 classes, found 3"), std::string::npos) << refusal();
  write(R"(["tench", 3])");
  EXPECT_NE(refusal().find("entry 1: expected a text, found number"), std::string::npos)
      << refusal();
  write("{");
  EXPECT_NE(refusal().find("classes.json"), std::string::npos) << refusal();
}

TEST(ClassNames, OfSeveralClassesAreRefusedWithTheirNumbers) {
  const fs::path file = fs::path(testing::TempDir()) / "classes.json";
  std::ofstream(file, std::ios::trunc) << R"(["crane", "hen", "Crane", "maillot", "maillot, suit",
                                             "bass, fish", "bass, instrument"])";
  const ClassNames names = ClassNames::read(file, 7);
  EXPECT_EQ(test::message_of([&] { names.find("crane"); }),
            "class: expected the name of one class, got \"crane\", that of 0 and 2: ask by number");
  EXPECT_NE(test::message_of([&] { names.find("bass"); }).find("that of 5 and 6"),
            std::string::npos);
  EXPECT_EQ(names.find("maillot"), 3);  // its whole text
  EXPECT_EQ(names.find("suit"), 4);
}

}  // namespace
}  // namespace talon::image_test
