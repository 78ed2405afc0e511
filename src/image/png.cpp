#include "image/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"

namespace talon {
namespace {

/// What libpng writes to. Nothing is thrown through its frames.
struct Output {
  std::vector<std::byte> bytes;
  std::string problem;
};

void append(png_structp png, png_bytep data, std::size_t size) {
  auto& output = *static_cast<Output*>(png_get_io_ptr(png));
  bool has_room = true;
  try {
    const auto* first = reinterpret_cast<const std::byte*>(data);
    output.bytes.insert(output.bytes.end(), first, first + size);
  } catch (...) {
    has_room = false;
  }
  if (!has_room) png_error(png, "out of memory");
}

void flush(png_structp) {}

void note_problem(png_structp png, png_const_charp message) {
  try {
    static_cast<Output*>(png_get_error_ptr(png))->problem = message;
  } catch (...) {
  }
  png_longjmp(png, 1);
}

void pass_over(png_structp, png_const_charp) {}

/// Nothing that has a destructor lives between setjmp and what may jump back to it.
bool write_all(png_structp png, png_infop info, const Picture& picture,
               std::vector<png_text>& texts, std::vector<png_const_bytep>& rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.width),
               static_cast<png_uint_32>(picture.height), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!texts.empty()) png_set_text(png, info, texts.data(), static_cast<int>(texts.size()));
  png_write_info(png, info);
  png_write_image(png, const_cast<png_bytepp>(rows.data()));
  png_write_end(png, info);
  return true;
}

png_text text_chunk(const std::pair<std::string, std::string>& text) {
  png_text chunk = {};
  chunk.compression = PNG_ITXT_COMPRESSION_NONE;
  chunk.key = const_cast<png_charp>(text.first.c_str());
  chunk.text = const_cast<png_charp>(text.second.c_str());
  chunk.itxt_length = text.second.size();
  return chunk;
}

/// What libpng reads from.
struct Input {
  std::span<const std::byte> rest;
  std::string problem;
};

void note_read_problem(png_structp png, png_const_charp message) {
  try {
    static_cast<Input*>(png_get_error_ptr(png))->problem = message;
  } catch (...) {
  }
  png_longjmp(png, 1);
}

void take(png_structp png, png_bytep data, std::size_t size) {
  auto& input = *static_cast<Input*>(png_get_io_ptr(png));
  if (size > input.rest.size()) png_error(png, "it ends early");
  std::memcpy(data, input.rest.data(), size);
  input.rest = input.rest.subspan(size);
}

bool read_head(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  return true;
}

/// From here on rows are 8 bits of red, green and blue.
bool ask_for_rgb(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png))) return false;
  const png_color_16 white = {.index = 0, .red = 255, .green = 255, .blue = 255, .gray = 255};
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_background(png, &white, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1.0);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool read_rows(png_structp png, std::vector<png_bytep>& rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows.data());
  png_read_end(png, nullptr);
  return true;
}

/// Pixels are read if `most_side` is not 0.
PngFile read(const std::filesystem::path& path, int most_side) {
  const MappedFile mapped(path);
  Input input{mapped.bytes(), {}};
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, note_read_problem, pass_over);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  PngFile file;
  bool read = false;
  if (info) {
    const auto most = static_cast<png_uint_32>(most_side);
    if (most > 0) png_set_user_limits(png, most, most);
    png_set_read_fn(png, &input, take);
    read = read_head(png, info);
    png_textp chunks = nullptr;
    const int count = read ? png_get_text(png, info, &chunks, nullptr) : 0;
    for (int i = 0; i < count; ++i) file.texts.emplace_back(chunks[i].key, chunks[i].text);
    if (read && most > 0) {
      Picture& picture = file.picture;
      picture.width = static_cast<int>(png_get_image_width(png, info));
      picture.height = static_cast<int>(png_get_image_height(png, info));
      const std::size_t row = 3 * static_cast<std::size_t>(picture.width);
      picture.rgb.resize(row * static_cast<std::size_t>(picture.height));
      std::vector<png_bytep> rows;
      for (std::size_t at = 0; at < picture.rgb.size(); at += row)
        rows.push_back(picture.rgb.data() + at);
      read = ask_for_rgb(png, info) && png_get_rowbytes(png, info) == row && read_rows(png, rows);
    }
  }
  png_destroy_read_struct(&png, &info, nullptr);
  if (!read) {
    fail("read {}: expected a PNG file: {}", path.string(),
         input.problem.empty() ? "out of memory" : input.problem);
  }
  return file;
}

}  // namespace

std::vector<std::byte> encode_png(const Picture& picture, const PngTexts& texts) {
  expects(picture.width > 0 && picture.height > 0, "a picture with pixels");
  Output output;
  std::vector<png_text> chunks;
  for (const auto& text : texts) chunks.push_back(text_chunk(text));
  std::vector<png_const_bytep> rows;
  for (int y = 0; y < picture.height; ++y)
    rows.push_back(picture.rgb.data() + static_cast<std::ptrdiff_t>(y) * picture.width * 3);
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &output, note_problem, pass_over);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  bool written = false;
  if (info) {
    png_set_write_fn(png, &output, append, flush);
    written = write_all(png, info, picture, chunks, rows);
  }
  png_destroy_write_struct(&png, &info);
  if (!written) fail("encode PNG: {}", output.problem.empty() ? "out of memory" : output.problem);
  return std::move(output.bytes);
}

PngTexts read_png_texts(const std::filesystem::path& path) { return read(path, 0).texts; }

PngFile read_png(const std::filesystem::path& path, int most_side) {
  expects(most_side > 0, "a side of at least one pixel");
  return read(path, most_side);
}

void write_png(const std::filesystem::path& path, const Picture& picture, const PngTexts& texts) {
  write_file(path, encode_png(picture, texts));
}

}  // namespace talon
