#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <png.h>

#include <fstream>

#include "draw/picture_prompt.h"
#include "io/zstd.h"
#include "test_server.h"

// POST /v1/images/generations, with the tiny model of tests/data/golden/images.
namespace talon::test {
namespace {

namespace fs = std::filesystem;

const fs::path& model_folder() {
  static const fs::path folder = [] {
    const fs::path golden = fs::path(TALON_TEST_DATA) / "golden/images";
    const fs::path made = fs::path(testing::TempDir()) / "talon_serve_pictures";
    fs::create_directories(made);
    for (const char* name : {"config.json", "words.json"}) {
      fs::copy_file(golden / "words" / name, made / name, fs::copy_options::overwrite_existing);
    }
    const auto unpack = [&](const char* from, const char* to) {
      std::ofstream(made / to, std::ios::binary) << read_zstd(golden / from);
    };
    unpack("words/model.safetensors.zst", "model.safetensors");
    unpack("vq.pt.zst", "vq.pt");
    return made;
  }();
  return folder;
}

LoadedModel open_words() {
  ModelSource source;
  source.model = model_folder().string();
  source.threads = 2;
  return open_model(source);
}

class PictureServer {
 public:
  PictureServer() {
    LoadedModel loaded = open_words();
    ServedModel model;
    model.name = "icons";
    model.pictures = std::make_unique<PictureStudio>(
        open_picture_decoder(loaded.model, model_folder() / "vq.pt"));
    auto cache = open_cache(loaded.model, {.bytes = std::size_t{4} << 20});
    HostOptions host;
    host.decode.drafter = "jacobi";
    model.host = std::make_unique<ModelHost>(std::move(loaded), std::move(cache), std::move(host));
    std::vector<ServedModel> models;
    models.push_back(std::move(model));
    ServeOptions options;
    options.http.port = 0;
    server_ = std::make_unique<Server>(options, std::move(models));
  }
  Reply post(const std::string& path, const Json& body) const {
    return Client(server_->port()).post(path, body);
  }
  Reply draw(const Json& body) const { return post("/v1/images/generations", body); }
  Reply get(const std::string& path) const { return Client(server_->port()).get(path); }

 private:
  std::unique_ptr<Server> server_;
};

PictureServer& server() {
  static PictureServer server;
  return server;
}

std::vector<std::uint8_t> pixels_of(const std::string& b64) {
  std::vector<unsigned char> bytes(b64.size());
  const int size = EVP_DecodeBlock(bytes.data(), reinterpret_cast<const unsigned char*>(b64.data()),
                                   static_cast<int>(b64.size()));
  EXPECT_GT(size, 0);
  png_image reader = {};
  reader.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&reader, bytes.data(), bytes.size()))
      << reader.message;
  reader.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(reader));
  EXPECT_TRUE(png_image_finish_read(&reader, nullptr, pixels.data(), 0, nullptr));
  return pixels;
}

/// Drawn in process without drafts.
std::vector<std::uint8_t> plain(const std::string& prompt, std::uint64_t seed, float guidance) {
  static const LoadedModel loaded = open_words();
  static const VqDecoder decoder = open_picture_decoder(loaded.model, model_folder() / "vq.pt");
  const auto cache = open_cache(loaded.model, {.bytes = std::size_t{4} << 20});
  Answerer answerer(loaded.model, *cache, nullptr, {.drafter = "none"});
  const PicturePrompt asked = text_prompt(loaded.model, nullptr, prompt);
  Request request;
  request.prompt = asked.own;
  request.guide_prompt = asked.guide;
  request.guidance = guidance;
  request.seed = seed;
  request.sampler.temperature = 1;
  request.max_new = loaded.model.config.image->cells();
  return decoder.decode(answerer.decode(request).tokens).rgb;
}

TEST(ServedPictures, AreThoseOfPlainDrawing) {
  const Json answer =
      server().draw({{"prompt", "red cat flat"}, {"n", 3}, {"seed", 5}, {"size", "10x6"}}).json();
  ASSERT_EQ(answer["data"].size(), 3u) << answer;
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(pixels_of(answer["data"][i]["b64_json"]), plain("red cat flat", 5 + i, 2)) << i;
  EXPECT_EQ(answer["size"], "10x6");
  EXPECT_EQ(answer["usage"]["output_tokens"], 45);
  EXPECT_EQ(answer["usage"]["input_tokens"], 6);
  EXPECT_EQ(answer["talon"]["drafter"], "jacobi");
}

TEST(ServedPictures, HearOfGuidanceAndMethods) {
  const Json guided = server()
                          .draw({{"prompt", "moon round"},
                                 {"seed", 9},
                                 {"guidance", 6},
                                 {"talon", {{"drafter", "grid"}, {"policy", "fixed"}}}})
                          .json();
  EXPECT_EQ(pixels_of(guided["data"][0]["b64_json"]), plain("moon round", 9, 6));
  EXPECT_NE(plain("moon round", 9, 6), plain("moon round", 9, 1));
}

TEST(ServedPictures, OtherWishesAreRefusedByTheirField) {
  const auto field = [](Json more) {
    Json body = {{"prompt", "red cat flat"}};
    body.update(more);
    const Reply reply = server().draw(body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["param"];
  };
  EXPECT_EQ(field({{"size", "1024x1024"}}), "size");
  EXPECT_EQ(field({{"response_format", "url"}}), "response_format");
  EXPECT_EQ(field({{"output_format", "webp"}}), "output_format");
  EXPECT_EQ(field({{"stream", true}}), "stream");
  EXPECT_EQ(field({{"guidance", -1}}), "guidance");
  EXPECT_EQ(field({{"n", 0}}), "n");
  EXPECT_EQ(field({{"prompt", "red caat flat"}}), "prompt");
  EXPECT_EQ(field({{"class", 3}}), "prompt");
  EXPECT_EQ(field({{"prompt", nullptr}, {"class", 3}}), "class");
  EXPECT_EQ(field({{"repetition_penalty", 1.5}}), "sampler repetition_penalty");
}

TEST(ServedPictures, ModelsAnswerOnTheirPathsOnly) {
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  for (const char* path : {"/v1/chat/completions", "/v1/responses", "/tokenize"}) {
    const Reply reply = server().post(path, chat);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_NE(reply.body.find("which draws pictures: use /v1/images/generations"),
              std::string::npos)
        << reply.body;
  }
  EXPECT_EQ(server().get("/props").status, 200);
  EXPECT_EQ(server().get("/v1/models").json()["data"][0]["id"], "icons");
  TestServer text;
  const Reply reply = text.post("/v1/images/generations", {{"prompt", "red cat flat"}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("expected one that draws pictures, found tiny"), std::string::npos)
      << reply.body;
}

}  // namespace
}  // namespace talon::test
