// Floating point: gravity between five bodies; a square root and a division a pair.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BODIES = 5 };
typedef struct {
  double at[3], velocity[3], mass;
} Body;

static Body bodies[BODIES];

static void place(void) {
  bodies[0].mass = 40;
  for (int i = 1; i < BODIES; i++) {
    bodies[i].at[0] = 3.0 * i, bodies[i].at[1] = i % 2 ? 0.5 : -0.25, bodies[i].at[2] = 0.1 * i;
    bodies[i].velocity[1] = sqrt(40 / (3.0 * i)), bodies[i].velocity[2] = 0.02 * i;
    bodies[i].mass = 0.01 * i;
  }
}

static void pull(Body *a, Body *b, double dt) {
  double d[3], square = 0;
  for (int k = 0; k < 3; k++) d[k] = a->at[k] - b->at[k], square += d[k] * d[k];
  double strength = dt / (square * sqrt(square));
  for (int k = 0; k < 3; k++) {
    a->velocity[k] -= d[k] * b->mass * strength;
    b->velocity[k] += d[k] * a->mass * strength;
  }
}

static void step(double dt) {
  for (int i = 0; i < BODIES; i++)
    for (int j = i + 1; j < BODIES; j++) pull(&bodies[i], &bodies[j], dt);
  for (int i = 0; i < BODIES; i++)
    for (int k = 0; k < 3; k++) bodies[i].at[k] += dt * bodies[i].velocity[k];
}

int main(int argc, char **argv) {
  long steps = argc > 1 ? atol(argv[1]) : 1000;
  place();
  for (long i = 0; i < steps; i++) step(0.001);
  for (int i = 0; i < BODIES; i++)
    printf("%.9f %.9f %.9f\n", bodies[i].at[0], bodies[i].at[1], bodies[i].at[2]);
}
