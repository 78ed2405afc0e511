#include "picture_server.h"

#include <gtest/gtest.h>
#include <png.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "draw/picture_prompt.h"
#include "io/codec/base64.h"
#include "io/codec/zstd.h"
#include "io/formats/write_safetensors.h"
#include "runtime/cache_budget.h"

namespace talon::test {
namespace {

namespace fs = std::filesystem;

const fs::path& golden() {
  static const fs::path folder = fs::path(TALON_TEST_DATA) / "golden/images";
  return folder;
}

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / "talon_serve_pictures" / name;
  fs::create_directories(folder);
  return folder;
}

fs::path unpack(const std::string& from, const fs::path& to) {
  std::ofstream(to, std::ios::binary) << read_zstd(golden() / (from + ".zst"));
  return to;
}

}  // namespace

LoadedModel PictureModel::open() const {
  ModelSource source;
  source.model = model.string();
  source.threads = 2;
  source.image_side = cells;
  source.context = context;
  return open_model(source);
}

PictureModel words_model(int rows, int columns) {
  const fs::path folder = scratch(fmt::format("words{}x{}", rows, columns));
  std::ifstream usual(golden() / "words/config.json");
  Json config = Json::parse(usual);
  config["grid"] = {rows, columns};
  std::ofstream(folder / "config.json") << config;
  fs::copy_file(golden() / "words/words.json", folder / "words.json",
                fs::copy_options::overwrite_existing);
  unpack("words/model.safetensors", folder / "model.safetensors");
  return {folder, unpack("words/vq.safetensors", folder / "vq.safetensors")};
}

PictureModel class_model() {
  const fs::path folder = scratch("classes");
  std::ofstream(folder / "classes.json")
      << R"(["tench, Tinca tinca", "goldfish", "white shark", "hen", "ostrich"])";
  return {unpack("c2i.pt", folder / "c2i.pt"), unpack("vq.pt", folder / "vq.pt"), 4};
}

PictureModel caption_model() {
  const fs::path folder = scratch("captions");
  fs::copy_file(golden() / "lantern/config.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  unpack("lantern/model.safetensors", folder / "model.safetensors");
  return {folder, unpack("vq.pt", folder / "vq.pt")};
}

fs::path write_caption(const std::string& name, int rows, float first) {
  constexpr int kWidth = 24;
  std::vector<float> values(static_cast<std::size_t>(rows * kWidth));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(first + 0.7F * static_cast<float>(i));
  const fs::path file = scratch("features") / name;
  const TensorToWrite tensor{
      "features", StorageType::f32, {rows, kWidth}, std::as_bytes(std::span(values))};
  write_safetensors(file, {&tensor, 1});
  return file;
}

ServedModel icons_served(const PictureModel& from, std::size_t positions) {
  LoadedModel loaded = from.open();
  ServedModel model;
  model.name = "icons";
  const KvType type = cache_type(loaded.model, {});
  model.pictures = open_studio(loaded, from.vq, {}, BackendKind::cpu, type);
  const std::size_t bytes =
      positions > 0 ? kv_cache_bytes(loaded.model.config, type, positions) : 0;
  auto cache = open_cache(loaded.model, {.bytes = bytes});
  HostOptions host;
  host.decode.drafter = "jacobi";
  host.decode.codebook = codebook_of(loaded.model, from.vq);
  model.host = std::make_unique<ModelHost>(std::move(loaded), std::move(cache), std::move(host));
  return model;
}

PictureServer::PictureServer(const PictureModel& from, std::size_t positions) {
  std::vector<ServedModel> models;
  models.push_back(icons_served(from, positions));
  ServeOptions options;
  options.http.port = 0;
  options.http.ping_s = 0;  // a stream is the same on a slow machine
  server_ = std::make_unique<Server>(options, std::move(models));
}

std::vector<Json> PictureServer::stream(Json body) const {
  body["stream"] = true;
  Reply reply = draw(body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers["content-type"], "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
  std::vector<Json> events = reply.events();
  for (const Json& event : events) {
    if (!event.contains("type")) continue;
    const std::string name = "event: " + event["type"].get<std::string>() + "\n";
    EXPECT_NE(reply.body.find(name), std::string::npos);
  }
  return events;
}

int PictureServer::cancelled() const {
  const std::string body = get("/metrics").body;
  const std::string name = "{finished_reason=\"cancelled\",model_name=\"icons\"} ";
  const std::size_t at = body.find(name);
  return at == std::string::npos ? 0 : std::stoi(body.substr(at + name.size()));
}

bool PictureServer::becomes_idle() const {
  for (int i = 0; i < 3000; ++i) {
    if (server_->idle()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

std::vector<std::uint8_t> pixels_of(const std::string& base64) {
  const auto bytes = from_base64(base64);
  if (!bytes) return {};
  png_image reader = {};
  reader.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&reader, bytes->data(), bytes->size()))
      << reader.message;
  reader.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(reader));
  EXPECT_TRUE(png_image_finish_read(&reader, nullptr, pixels.data(), 0, nullptr));
  return pixels;
}

}  // namespace talon::test
