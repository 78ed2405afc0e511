#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/loaded_model.h"
#include "test_server.h"

namespace talon::test {

/// A tiny image model of tests/data/golden/images, with a folder of its own.
struct PictureModel {
  std::filesystem::path model, vq;
  int cells = 0;    // of a side, where files do not tell
  int context = 0;  // tokens; 0: the usual

  LoadedModel open() const;
};
/// Asked by words and a style; 40 codes, cells of 2 by 2 pixels.
PictureModel words_model(int rows, int columns);
/// Of five classes, "tench, Tinca tinca" among them; 4 by 4 cells.
PictureModel class_model();
/// Asked by the features of captions, at most 10 rows of 24; 4 by 4 cells.
PictureModel caption_model();

/// Features of a caption, a safetensors file.
std::filesystem::path write_caption(const std::string& name, int rows, float first);

/// One as a server has it, "icons". positions: of the cache; 0: the usual.
ServedModel icons_served(const PictureModel& from, std::size_t positions = 0);

/// A server of one.
class PictureServer {
 public:
  explicit PictureServer(const PictureModel& model, std::size_t positions = 0);

  int port() const { return server_->port(); }
  Reply post(const std::string& path, const Json& body) const {
    return Client(port()).post(path, body);
  }
  Reply draw(const Json& body) const { return post("/v1/images/generations", body); }
  /// Of a stream that no [DONE] ends.
  std::vector<Json> stream(Json body) const;
  Reply get(const std::string& path) const { return Client(port()).get(path); }
  /// Answers that were cancelled so far.
  int cancelled() const;
  bool becomes_idle() const;

 private:
  std::unique_ptr<Server> server_;
};

/// 8 bits of red, green and blue of a PNG file in base64.
std::vector<std::uint8_t> pixels_of(const std::string& base64);

}  // namespace talon::test
