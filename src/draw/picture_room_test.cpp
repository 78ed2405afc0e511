#include "draw/picture_room.h"

#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "io/test_pictures.h"

namespace talon::picture_room_test {
namespace {

TEST(PictureRoom, IsForAsManyAsFitInHalfOfTheMemoryAndForOneAtLeast) {
  const auto file = test::unpack_picture("talon_picture_room", "words/model.safetensors");
  const auto backend = make_reference_backend(1);
  const Model model = load_model(open_checkpoint(file.parent_path()), *backend);
  const auto room = [&](std::size_t pictures, std::optional<std::size_t> available) {
    return picture_room(model, {.pictures = pictures, .prompt_tokens = 6, .streams = 2}, available);
  };
  const std::size_t five = room(5, std::nullopt).cache.bytes;
  EXPECT_GT(five, room(4, std::nullopt).cache.bytes);
  EXPECT_EQ(room(16, std::nullopt).pictures, 16);
  EXPECT_EQ(room(100, std::nullopt).pictures, 16);
  EXPECT_EQ(room(16, 2 * five).pictures, 5);
  EXPECT_EQ(room(16, 2 * five).cache.bytes, five);
  EXPECT_EQ(room(16, 2 * five - 1).pictures, 4);
  EXPECT_EQ(room(3, 2 * five).pictures, 3);
  EXPECT_EQ(room(16, 0).pictures, 1);
  EXPECT_EQ(room(16, 0).cache.bytes, room(1, std::nullopt).cache.bytes);
}

}  // namespace
}  // namespace talon::picture_room_test
