#include "train/image/picture_codes.h"

#include <gtest/gtest.h>

#include <fstream>

#include "image/vq_encoder.h"
#include "io/test_files.h"
#include "io/test_pictures.h"
#include "train/image/stored_tokenizer.h"
#include "train/image/test_image_runs.h"

namespace talon::picture_codes_test {
namespace {

namespace fs = std::filesystem;

using namespace image_data_test;

/// Of which some facts were not written: they are taken, and no setting of a run is another one.
TEST(TrainImageCodes, OfBeforeAreTaken) {
  const CodedFolder data;
  const fs::path index = data / "codes/codes.json";
  const Json now = Json::parse(bytes_of(index));
  Json before = now;
  before.erase("contents_sha256");
  before.erase("precision");
  std::ofstream(index) << before.dump();
  const auto train = [&](double epochs) {
    return train_image_model(small_model(data, data / "model", epochs), quiet()).finished;
  };
  EXPECT_TRUE(train(1));
  EXPECT_TRUE(make_codes(small_codes(data), quiet()));
  EXPECT_EQ(Json::parse(bytes_of(index)), before) << "they say of themselves what they said";
  fs::remove(index);
  EXPECT_TRUE(make_codes(small_codes(data), quiet()));
  EXPECT_EQ(Json::parse(bytes_of(index)), now);
  EXPECT_TRUE(train(2)) << "a run of before";
}

TEST(TrainImageCodes, OfOtherPixelsAreRefused) {
  const CodedFolder data;
  write_pictures(data, 9, 1, /*blue=*/127);
  const PictureSet pictures(data.string());
  const std::string found = test::message_of([&] { read_codes(data / "codes", pictures); });
  EXPECT_NE(found.find("expected codes of the pictures of --data"), std::string::npos) << found;
  const std::string again = test::message_of([&] { make_codes(small_codes(data), quiet()); });
  EXPECT_NE(again.find("setting \"contents_sha256\": expected"), std::string::npos) << again;
}

TEST(TrainImageCodes, GoOnWithTheViewsThatAreMissing) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 12);
  CodesOptions options = small_codes(data);
  options.views = 3;
  options.shift = 2;
  Stopper stopper(1);
  EXPECT_FALSE(make_codes(options, stopper.hooks));
  EXPECT_TRUE(fs::exists(data / "codes/codes.json"));
  const PictureSet pictures(data.string());
  const std::string missing = test::message_of([&] { read_codes(data / "codes", pictures); });
  EXPECT_NE(missing.find("expected 3 views, found no codes-1.safetensors"), std::string::npos)
      << missing;
  const std::string first = bytes_of(data / "codes/codes-0.safetensors");
  EXPECT_TRUE(make_codes(options, quiet()));
  EXPECT_EQ(bytes_of(data / "codes/codes-0.safetensors"), first);
  const torch::Tensor codes = read_codes(data / "codes", pictures).codes;
  EXPECT_EQ(codes.sizes(), (std::vector<std::int64_t>{3, 9, 16}));
  EXPECT_FALSE(codes[0].equal(codes[1])) << "views are moved";
}

TEST(TrainImageCodes, OfOtherSettingsAreRefusedByName) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 12);
  CodesOptions options = small_codes(data);
  options.views = 2;
  ASSERT_TRUE(make_codes(options, quiet()));
  const fs::path index = data / "codes/codes.json", second = data / "codes/codes-1.safetensors";
  const std::string facts = bytes_of(index), codes = bytes_of(second);
  options.precision = options.precision == "f32" ? "bf16" : "f32";
  EXPECT_NE(test::message_of([&] {
              make_codes(options, quiet());
            }).find("codes.json: setting \"precision\": expected"),
            std::string::npos);
  options.precision = CodesOptions{}.precision;
  options.seed = 42;
  const auto refusal = [&] { return test::message_of([&] { make_codes(options, quiet()); }); };
  const auto expect = [](const std::string& found, std::string_view part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(refusal(), "codes.json: setting \"seed\": expected 42, found 1: use another --out");
  fs::remove(index);
  expect(refusal(), "codes-0.safetensors: facts: setting \"seed\": expected 42, found 1");
  EXPECT_FALSE(fs::exists(index));
  EXPECT_EQ(bytes_of(second), codes);
  options.seed = 1;
  EXPECT_TRUE(make_codes(options, quiet()));
  EXPECT_EQ(bytes_of(index), facts);

  options.seed = 42;
  options.out = (data / "others").string();
  ASSERT_TRUE(make_codes(options, quiet()));
  fs::copy_file(data / "others/codes-1.safetensors", second, fs::copy_options::overwrite_existing);
  const PictureSet pictures(data.string());
  expect(test::message_of([&] { read_codes(data / "codes", pictures); }),
         "codes-1.safetensors: facts: setting \"seed\": expected 1, found 42");
}

/// The engine's encoder reads the same file as the trainer's. Pictures are compared, as two codes
/// may be the same vector.
TEST(TrainImageCodes, OfATokenizersFileAreThoseOfItsFolder) {
  const Folder data;
  write_pictures(data, 9);
  make_tokenizer(data, data / "tokenizer", 40);
  CodesOptions options = small_codes(data);
  ASSERT_TRUE(make_codes(options, quiet()));
  options.tokenizer = (data / "tokenizer/vq.safetensors").string();
  options.out = (data / "others").string();
  ASSERT_TRUE(make_codes(options, quiet()));
  const PictureSet pictures(data.string());
  const StoredTokenizer tokenizer(data / "tokenizer", torch::kFloat);
  const auto drawn = [&](const char* folder) {
    return tokenizer.pictures_of(read_codes(data / folder, pictures).codes[0].to(torch::kLong));
  };
  const torch::Tensor own = drawn("codes"), others = drawn("others");
  EXPECT_GT((own[0] - own[1]).abs().max().item<double>(), 0.1);
  EXPECT_LT((own - others).abs().max().item<double>(), 1e-3);
}

TEST(TrainImageCodes, AreMadeWithPublishedTokenizers) {
  const Folder data;
  write_pictures(data, 3);
  CodesOptions options = small_codes(data);
  options.tokenizer = test::unpack_picture("talon_train_codes", "chameleon_vq_encoder.pt").string();
  options.precision = "bf16";
  const auto refusal = [&] { return test::message_of([&] { make_codes(options, quiet()); }); };
  EXPECT_EQ(refusal(),
            "train image codes --precision: expected f32 with a tokenizer's file, got bf16");
  options.precision = "f32";
  ASSERT_TRUE(make_codes(options, quiet()));
  const PictureSet pictures(data.string());
  const PictureCodes codes = read_codes(data / "codes", pictures);
  EXPECT_EQ(codes.grid, 4);
  EXPECT_EQ(codes.code_count, 24);
  const VqEncoder encoder(open_checkpoint(data / "codes/vq.safetensors"), 16, 16);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const auto pixels = pictures.pixels(i);
    const Picture picture{16, 16, {pixels.begin(), pixels.end()}};
    const torch::Tensor own = codes.codes[0][static_cast<std::int64_t>(i)].contiguous();
    const int* const first = own.data_ptr<int>();
    EXPECT_EQ(encoder.encode(picture), std::vector<TokenId>(first, first + 16));
  }
  options.tokenizer = test::unpack_picture("talon_train_codes", "chameleon_vq.pt").string();
  EXPECT_NE(refusal().find("\"encoder.conv_in.weight\""), std::string::npos) << refusal();
}

}  // namespace
}  // namespace talon::picture_codes_test
