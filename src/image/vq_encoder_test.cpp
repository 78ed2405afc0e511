#include "image/vq_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/vq_decoder.h"
#include "io/test_files.h"
#include "io/test_pictures.h"

namespace talon::vq_encoder_test {
namespace {

namespace fs = std::filesystem;

using test::numbers;

Checkpoint recorded(const std::string& name) {
  return open_checkpoint(test::unpack_picture("talon_vq_encoder", name));
}

Checkpoint shipped() {
  return open_checkpoint(fs::path(TALON_TEST_DATA) / "../../models/emoji/vq.safetensors");
}

/// "picture" of a recording, [height, width, 3].
Picture picture_of(const Checkpoint& golden) {
  const StoredTensor& tensor = golden.require("picture");
  return {static_cast<int>(tensor.shape[1]), static_cast<int>(tensor.shape[0]),
          numbers<std::uint8_t>(golden, "picture")};
}

std::vector<float> pixels_of(const Picture& picture) {
  std::vector<float> pixels;
  for (const std::uint8_t value : picture.rgb)
    pixels.push_back(static_cast<float>(value) / 127.5F - 1.0F);
  return pixels;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  return largest;
}

/// tests/data/golden/images/encoders.py; sums in another order: 1e-4 of vectors of about 1. The
/// second code of each cell is further away than that changes.
void expect_recorded(const Checkpoint& checkpoint, const Checkpoint& golden) {
  const Picture picture = picture_of(golden);
  const VqEncoder encoder(checkpoint, picture.width, picture.height);
  const auto expected = numbers<float>(golden, "vectors");
  const std::vector<float> found = encoder.vectors(pixels_of(picture));
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_LT(largest_difference(found, expected), 1e-4);
  const auto codes = numbers<TokenId>(golden, "codes");
  EXPECT_EQ(codes.size(), static_cast<std::size_t>(encoder.rows() * encoder.columns()));
  EXPECT_EQ(encoder.encode(picture), codes);
}

TEST(VqEncoder, GivesTheCodesOfPyTorch) {
  const Checkpoint checkpoint = recorded("vq_encoder.pt");
  const VqEncoder encoder(checkpoint, 10, 6);
  EXPECT_EQ(encoder.codes(), 48);
  EXPECT_EQ(encoder.columns(), 5);
  EXPECT_EQ(encoder.rows(), 3);
  expect_recorded(checkpoint, recorded("vq_encoder.golden.safetensors"));
}

// Levels by other names, codes as they are stored.
TEST(VqEncoder, ReadsChameleonsTokenizer) {
  expect_recorded(recorded("chameleon_vq_encoder.pt"),
                  recorded("chameleon_vq_encoder.golden.safetensors"));
}

TEST(VqEncoder, ReadsTokenizersAmongTheTensorsOfAModel) {
  for (const auto& [name, prefix] : {std::pair("vq_encoder", "gen_vision_model."),
                                     std::pair("chameleon_vq_encoder", "model.vqmodel.")}) {
    Checkpoint checkpoint = recorded(std::string(name) + ".pt");
    for (StoredTensor& tensor : checkpoint.tensors) tensor.name.insert(0, prefix);
    checkpoint.by_name.clear();
    expect_recorded(checkpoint, recorded(std::string(name) + ".golden.safetensors"));
  }
}

// In the layout of LlamaGen, too; what its decoder makes of the codes is the picture again: 30 dB
// by PyTorch.
TEST(VqEncoder, TheShippedTokenizerGivesThePictureBack) {
  const Checkpoint checkpoint = shipped();
  const Checkpoint golden = recorded("emoji_encoder.golden.safetensors");
  expect_recorded(checkpoint, golden);
  const Picture picture = picture_of(golden);
  const VqEncoder encoder(checkpoint, picture.width, picture.height);
  const VqDecoder decoder(checkpoint, encoder.rows(), encoder.columns());
  EXPECT_EQ(decoder.codes(), encoder.codes());
  const Picture back = decoder.decode(encoder.encode(picture));
  ASSERT_EQ(back.rgb.size(), picture.rgb.size());
  double squares = 0;
  for (std::size_t i = 0; i < back.rgb.size(); ++i) {
    const double difference = (static_cast<double>(back.rgb[i]) - picture.rgb[i]) / 255;
    squares += difference * difference;
  }
  EXPECT_GT(-10 * std::log10(squares / static_cast<double>(back.rgb.size())), 29);
}

StoredTensor& tensor_of(Checkpoint& checkpoint, const std::string& name) {
  return *std::ranges::find(checkpoint.tensors, name, &StoredTensor::name);
}

TEST(VqEncoder, TakesTheSmallerOfEqualCodes) {
  for (const char* name : {"vq_encoder", "chameleon_vq_encoder"}) {
    const std::string file = name;
    Checkpoint checkpoint = recorded(file + ".pt");
    const Checkpoint golden = recorded(file + ".golden.safetensors");
    const auto codes = numbers<TokenId>(golden, "codes");
    // Every code twice: what was asked for by the larger number now has the smaller one, too.
    StoredTensor& book = tensor_of(checkpoint, "quantize.embedding.weight");
    const std::size_t half = book.bytes.size() / 2;
    std::vector<std::byte> twice(book.bytes.begin(), book.bytes.end());
    std::memcpy(twice.data() + half, twice.data(), half);
    book.bytes = twice;
    const Picture picture = picture_of(golden);
    const VqEncoder encoder(checkpoint, picture.width, picture.height);
    const std::vector<TokenId> found = encoder.encode(picture);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_LT(found[i], encoder.codes() / 2);
      if (codes[i] < encoder.codes() / 2) {
        EXPECT_EQ(found[i], codes[i]);
      }
    }
  }
}

/// Of a recorded tokenizer, with a change.
template <typename Change>
std::string refusal_of(const Change& change, const std::string& name = "vq_encoder.pt") {
  Checkpoint checkpoint = recorded(name);
  change(checkpoint);
  checkpoint.by_name.clear();
  return test::message_of([&] { VqEncoder(checkpoint, 12, 8); });
}

void expect_part(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(VqEncoder, RefusesHostileTokenizersByTheTensor) {
  EXPECT_EQ(refusal_of([](Checkpoint&) {}), "no error");
  expect_part(refusal_of([](Checkpoint& file) {
                std::erase_if(file.tensors,
                              [](const auto& t) { return t.name == "encoder.conv_in.bias"; });
              }),
              "\"encoder.conv_in.bias\"");
  expect_part(refusal_of([](Checkpoint& file) {
                tensor_of(file, "encoder.conv_in.weight").shape = {32, 1, 9, 3};
              }),
              "\"encoder.conv_in.weight\": expected [channels, 3, 1 or 3, as many]");
  const std::string down = "encoder.conv_blocks.0.downsample.conv.weight";
  expect_part(refusal_of([&](Checkpoint& file) {
                tensor_of(file, down).shape = {32 * 9, 32, 1, 1};
              }),
              "\"" + down + "\": expected [channels, 32, 3, as many], found [288, 32, 1, 1]");
  expect_part(refusal_of([&](Checkpoint& file) { tensor_of(file, down).name = "gone"; }),
              "\"" + down + "\": expected one in every level but the last, found none");
  expect_part(refusal_of([&](Checkpoint& file) {
                StoredTensor more = tensor_of(file, down);
                more.name = "encoder.conv_blocks.1.downsample.conv.weight";
                file.tensors.push_back(more);
              }),
              "expected one in every level but the last, found one");
  expect_part(refusal_of([](Checkpoint& file) {
                tensor_of(file, "quant_conv.weight").shape = {4, 24, 1, 1};
                StoredTensor& weight = tensor_of(file, "quant_conv.weight");
                weight.bytes = weight.bytes.first(weight.bytes.size() / 2);
                StoredTensor& bias = tensor_of(file, "quant_conv.bias");
                bias.shape = {4};
                bias.bytes = bias.bytes.first(bias.bytes.size() / 2);
              }),
              "\"quant_conv.weight\": expected 8 channels out, as codes have, found 4");
  expect_part(refusal_of([](Checkpoint& file) {
                StoredTensor& bias = tensor_of(file, "encoder.conv_out.bias");
                static std::vector<std::byte> all;
                all.assign(bias.bytes.size(), std::byte{0xff});
                bias.bytes = all;
              }),
              "\"encoder.conv_out.bias\": expected finite values, found NaN or infinity");
}

TEST(VqEncoder, RefusesFilesWithADecoderAlone) {
  expect_part(refusal_of([](Checkpoint&) {}, "vq.pt"), "\"encoder.conv_in.weight\"");
  expect_part(refusal_of([](Checkpoint&) {}, "chameleon_vq.pt"), "\"encoder.conv_in.weight\"");
}

TEST(VqEncoder, RefusesPicturesOfOtherSides) {
  const Checkpoint checkpoint = recorded("chameleon_vq_encoder.pt");
  const auto refusal = [&](int width, int height) {
    return test::message_of([&] { VqEncoder(checkpoint, width, height); });
  };
  EXPECT_EQ(refusal(16, 8), "no error");
  expect_part(refusal(16, 6), "expected sides of a multiple of 4 pixels");
  expect_part(refusal(1 << 14, 8), "at most 8192, found 16384 by 8");
}

TEST(VqEncoder, RefusesValuesThatAreNotFinite) {
  const VqEncoder encoder(recorded("vq_encoder.pt"), 4, 4);
  std::vector<float> pixels(4 * 4 * 3, 1.0F);
  pixels[5] = NAN;
  expect_part(test::message_of([&] { encoder.codes_of(pixels); }), "encode a picture: expected");
}

}  // namespace
}  // namespace talon::vq_encoder_test
