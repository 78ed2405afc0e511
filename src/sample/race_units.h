#pragma once

#include "sample/race_kernels.h"

// One unit for each instruction set, compiled with its flags.
namespace talon::sample {

LargestLogit largest_avx512(const float* logits, int count);
LargestLogit largest_avx2(const float* logits, int count);
LargestLogit largest_portable(const float* logits, int count);

int rank_avx512(const float* logits, int count, int token);
int rank_avx2(const float* logits, int count, int token);
int rank_portable(const float* logits, int count, int token);

int next_survivor_avx512(const RaceTrack& track, float bound, int begin);
int next_survivor_avx2(const RaceTrack& track, float bound, int begin);
int next_survivor_portable(const RaceTrack& track, float bound, int begin);

void words_avx512(const WordStream& stream, int first_group, int groups, std::uint32_t* words);
void words_avx2(const WordStream& stream, int first_group, int groups, std::uint32_t* words);
void words_portable(const WordStream& stream, int first_group, int groups, std::uint32_t* words);

void gumbel_avx512(const std::uint32_t* words, int count, float scale, float* noise);
void gumbel_avx2(const std::uint32_t* words, int count, float scale, float* noise);
void gumbel_portable(const std::uint32_t* words, int count, float scale, float* noise);

}  // namespace talon::sample
