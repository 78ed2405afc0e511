#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace talon {

/// One question of a Spec-Bench file: {"question_id", "category", "turns": [text, ...]} on a line.
struct Question {
  Json id;
  std::string category;
  std::vector<std::string> turns;
  std::string from = {};  // "FILE, line N"
};

/// `source`: FILE, or NAME=FILE to give all its questions the category NAME (EAGLE's own sets are
/// one file per category). Throws Error naming the file, line and field, or if there is none.
std::vector<Question> read_questions(const std::string& source);

/// Throws Error naming the lines of two questions with the same id and category, which results
/// could not tell apart.
void require_different(const std::vector<Question>& questions);

struct QuestionChoice {
  std::string category = {};  // or a Spec-Bench subtask; empty: all
  int per_category = 0;       // the first of each subtask; 0: all
  int limit = 0;              // the first of what is left; 0: all
};
/// Throws Error if none is left.
std::vector<Question> select_questions(std::vector<Question> questions,
                                       const QuestionChoice& choice);

/// Spec-Bench counts the eight categories of MT-Bench as one subtask, multi_turn; every other
/// category is its own.
std::string subtask_of(std::string_view category);

}  // namespace talon
