<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use RedisLease\Bridge\HeldByRequest;
use Symfony\Component\HttpKernel\Event\RequestEvent;

/**
 * Tells HeldByRequest that the kernel begins with a request.
 *
 * @internal
 */
final class RequestListener
{
    public function __construct(private readonly HeldByRequest $held)
    {
    }

    public function begin(RequestEvent $event): void
    {
        if ($event->isMainRequest()) {
            $this->held->begin();
        }
    }
}
